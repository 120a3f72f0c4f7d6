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
		wakeOthers := func(own int) {
			for i := range wake {
				if parking && i != own {
					unpark(i)
				}
			}
		}
		lead := func(own int) {
			now := term.Load()
			seen[own].Store(now)
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
			if times.count() > 0 && time.Since(begun) >= c.window() {
				done.Store(true)
			} else {
				next := (own + 1 + random.below(c.Threads-1)) % c.Threads
				term.Store(now + 1)
				leader.Store(int64(next))
			}
			wakeOthers(own)
		}
		term.Store(1)
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
