package main

import "runtime"

// Go does not say whether a yield found another goroutine to run. With one goroutine for
// each processor, no yield did.
func init() {
	experiments["yield"] = func(c Case) Reading {
		w := openWindow(c.Threads, c.window())
		total, _ := crowd(c.Threads, func(int) *Tally {
			t := w.tally()
			for {
				runtime.Gosched()
				if !t.tick(false) {
					return t
				}
			}
		})
		if c.Threads <= c.Processors {
			return w.reading(total, total)
		}
		return w.plainReading(total)
	}
}
