package main

import "time"

func init() {
	experiments["utilisation"] = func(c Case) Reading {
		locks := c.Processors / 2
		if locks == 0 {
			locks = 1
		}
		return Reading{"cores": loops(c, locks, 10*time.Microsecond).cores()}
	}
}
