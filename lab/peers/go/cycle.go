package main

import "sync/atomic"

const ring = 5

// The token of a ring goes through channels that hold one.
func init() {
	experiments["cycle"] = func(c Case) Reading {
		tokens := make([]chan struct{}, c.Threads)
		for i := range tokens {
			tokens[i] = make(chan struct{}, 1)
		}
		seenEnd := make([]atomic.Int32, c.Threads/ring)
		w := openWindow(c.Threads, c.window())
		for first := 0; first < c.Threads; first += ring {
			tokens[first] <- struct{}{}
		}
		total, void := crowd(c.Threads, func(number int) *Tally {
			own := tokens[number]
			next := tokens[number/ring*ring+(number+1)%ring]
			t := w.tally()
			for {
				found := len(own) > 0
				<-own
				if !t.tick(found) {
					if seenEnd[number/ring].Add(1) < ring {
						next <- struct{}{}
					}
					return t
				}
				next <- struct{}{}
			}
		})
		return w.reading(total, void)
	}
}
