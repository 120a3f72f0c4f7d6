package main

import (
	"strings"
	"sync"
	"time"
)

const turnsPerRound = 2000

func init() {
	experiments["timers"] = func(c Case) Reading {
		if strings.HasPrefix(c.Variant, "cost") {
			return timerCost(c)
		}
		late := &Latency{}
		var lock sync.Mutex
		crowd(c.Threads, func(number int) *Tally {
			random := randomOf(number)
			var own []time.Duration
			for begun := time.Now(); time.Since(begun) < c.window() || len(own) == 0; {
				length := time.Millisecond
				if c.Threads > 1 {
					length += time.Duration(random.below(9_000_000))
				}
				began := time.Now()
				time.Sleep(length)
				own = append(own, time.Since(began)-length)
			}
			lock.Lock()
			defer lock.Unlock()
			for _, t := range own {
				late.note(t)
			}
			return nil
		})
		reading := Reading{}
		late.readInto(reading)
		return reading
	}
}

// Two goroutines that take turns, in one round with a timeout of an hour, in the
// next without one, while others wait for an hour.
func timerCost(c Case) Reading {
	over := make(chan struct{})
	for i := 0; i < c.Threads-2; i++ {
		go func(i int) {
			select {
			case <-over:
			case <-time.After(time.Hour + time.Duration(i)*time.Millisecond):
			}
		}(i)
	}
	time.Sleep(10 * time.Millisecond)
	wait := func(in chan struct{}, timed bool) {
		if !timed {
			<-in
			return
		}
		timer := time.NewTimer(time.Hour)
		select {
		case <-in:
		case <-timer.C:
			panic("an hour has passed")
		}
		timer.Stop()
	}
	rounds := map[bool]*Latency{true: {}, false: {}}
	for begun := time.Now(); time.Since(begun) < c.window() || rounds[false].count() < 3; {
		for _, timed := range []bool{true, false} {
			there, back := make(chan struct{}, 1), make(chan struct{}, 1)
			go func() {
				for i := 0; i < turnsPerRound; i++ {
					wait(there, timed)
					back <- struct{}{}
				}
			}()
			round := time.Now()
			for i := 0; i < turnsPerRound; i++ {
				there <- struct{}{}
				wait(back, timed)
			}
			rounds[timed].note(time.Since(round))
		}
	}
	close(over)
	median := func(l *Latency) float64 {
		r := Reading{}
		l.readInto(r)
		return r["p50_us"] * 1e3 / (2 * turnsPerRound)
	}
	cost := median(rounds[true]) - median(rounds[false])
	if cost < 0 {
		cost = 0
	}
	return Reading{"arm_cancel_ns": cost}
}
