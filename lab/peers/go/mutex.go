package main

import "time"

func init() {
	experiments["mutex"] = func(c Case) Reading {
		t := loops(c, 32, time.Microsecond)
		reading := Reading{
			"ideal_share": t.cores() / float64(c.Processors),
			"turns_min":   float64(t.fewest),
			"unit_ns":     t.unitNs,
		}
		if t.fewest > 0 {
			reading["turns_max_min_ratio"] = float64(t.most) / float64(t.fewest)
		}
		return reading
	}
}
