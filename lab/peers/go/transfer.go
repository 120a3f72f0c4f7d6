package main

import (
	"runtime"
	"sync/atomic"
	"time"
)

const transferWarmUp = 10

func init() {
	experiments["transfer"] = func(c Case) Reading {
		parking := c.Variant == "park"
		var leader, term atomic.Int64
		var done atomic.Bool
		leader.Store(-1)
		seen := make([]struct {
			atomic.Int64
			_ [120]byte
		}, c.Threads)
		wake := make([]chan struct{}, c.Threads)
		for i := range wake {
			wake[i] = make(chan struct{}, 1)
		}
		unpark := func(i int) {
			select {
			case wake[i] <- struct{}{}:
			default:
			}
		}
		times := &Latency{}
		random := randomOf(0)
		var begun, last time.Time
		lead := func(own int) {
			lastTerm := times.count() > 0 && time.Since(begun) >= c.window()
			now := term.Load() + 1
			seen[own].Store(now)
			term.Store(now)
			if lastTerm {
				done.Store(true)
			}
			if parking {
				for i := range wake {
					if i != own {
						unpark(i)
					}
				}
			}
			if lastTerm {
				return
			}
			for i := range seen {
				for seen[i].Load() != now {
				}
			}
			at := time.Now()
			if now > transferWarmUp {
				times.note(at.Sub(last))
			} else {
				begun = at
			}
			last = at
			next := random.below(c.Threads)
			leader.Store(int64(next))
			if parking {
				unpark(next)
			}
		}
		leader.Store(0)
		crowd(c.Threads, func(own int) *Tally {
			for !done.Load() {
				if int(leader.Load()) == own {
					lead(own)
					continue
				}
				seen[own].Store(term.Load())
				if parking {
					<-wake[own]
				} else {
					runtime.Gosched()
				}
			}
			return nil
		})
		reading := Reading{"mean_us": times.meanUs()}
		times.readInto(reading)
		return reading
	}
}
