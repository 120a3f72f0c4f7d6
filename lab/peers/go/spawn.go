package main

import "time"

const perRound = 1000

func init() {
	experiments["spawn"] = func(c Case) Reading {
		batch := perRound
		if c.Variant == "single" {
			batch = 1
		}
		joins := make(chan uint64, batch)
		round := func() {
			for i := 0; i < perRound/batch; i++ {
				for n := 0; n < batch; n++ {
					go func(n uint64) { joins <- n }(uint64(n))
				}
				for n := 0; n < batch; n++ {
					<-joins
				}
			}
		}
		ns, cpuNs := 0.0, 0.0
		warmUp := longestWarmUp
		if c.window() < warmUp {
			warmUp = c.window()
		}
		for _, length := range []time.Duration{warmUp, c.window()} {
			begun, used := time.Now(), cpuTime()
			goroutines := 0
			for time.Since(begun) < length {
				round()
				goroutines += perRound
			}
			ns = float64(time.Since(begun).Nanoseconds()) / float64(goroutines)
			cpuNs = float64((cpuTime() - used).Nanoseconds()) / float64(goroutines)
		}
		return Reading{"spawn_join_ns": ns, "cpu_ns_per_op": cpuNs}
	}
}
