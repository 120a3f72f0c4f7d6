package main

import (
	"runtime"
	"time"
)

const (
	burstSize = 1000
	stretch   = 5 * time.Millisecond
)

func init() {
	experiments["skew"] = func(c Case) Reading {
		u := calibrate(10*time.Microsecond, c.Processors)
		if c.Variant == "burst" {
			before := u.measuredNs(c.Processors)
			joins := make(chan uint64, burstSize)
			done := 0
			begun := time.Now()
			for time.Since(begun) < c.window() {
				for i := 0; i < burstSize; i++ {
					go func() { joins <- u.compute() }()
				}
				for i := 0; i < burstSize; i++ {
					<-joins
				}
				done += burstSize
			}
			elapsed := time.Since(begun)
			unitNs := (before + u.measuredNs(c.Processors)) / 2
			return Reading{"cores": float64(done) * unitNs / float64(elapsed.Nanoseconds())}
		}
		w := openWindow(c.Threads, c.window())
		// Gaps up to 1 ms in steps of a microsecond, longer ones one by one.
		gaps := make([]*gapCount, c.Threads)
		crowd(c.Threads, func(number int) *Tally {
			w.tally()
			if number == 0 {
				for w.phase.Load() != over {
					for begun := time.Now(); time.Since(begun) < stretch; {
						u.compute()
					}
					runtime.Gosched()
				}
				return nil
			}
			own := &gapCount{}
			gaps[number] = own
			for last := time.Now(); w.phase.Load() != over; {
				runtime.Gosched()
				now := time.Now()
				if w.phase.Load() == open {
					own.note(now.Sub(last))
				}
				last = now
			}
			return nil
		})
		all := &Latency{}
		for _, own := range gaps {
			if own == nil {
				continue
			}
			for us, n := range own.short {
				if n > 0 {
					all.noteFor(time.Duration(us)*time.Microsecond, n*uint64(1+us))
				}
			}
			for _, gap := range own.long {
				all.noteFor(gap, uint64(1+gap.Microseconds()))
			}
		}
		reading := Reading{}
		all.readInto(reading)
		return reading
	}
}

type gapCount struct {
	short [1000]uint64
	long  []time.Duration
}

func (g *gapCount) note(gap time.Duration) {
	if us := gap.Microseconds(); us < 1000 {
		g.short[us]++
	} else {
		g.long = append(g.long, gap)
	}
}
