package main

import "time"

func init() {
	experiments["scalability"] = func(c Case) Reading {
		t := loops(c, 32, time.Duration(c.amount())*time.Microsecond)
		return Reading{"cores": t.cores(), "unit_ns": t.unitNs}
	}
}
