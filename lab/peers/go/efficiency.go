package main

import "time"

func init() {
	experiments["efficiency"] = func(c Case) Reading {
		locks := c.Processors / 4
		if locks == 0 {
			locks = 1
		}
		t := loops(c, locks, 20*time.Microsecond)
		us := float64(t.cpu.Nanoseconds()) / 1e3 / float64(t.total)
		overhead := us - 2*t.unitNs/1e3
		if overhead < 0 {
			overhead = 0
		}
		return Reading{"cpu_us_per_turn": us, "overhead_us": overhead, "unit_ns": t.unitNs}
	}
}
