package main

import (
	"fmt"
	"os"
	"time"
)

// The generator of the actor benchmarks, the same in every language.
type Congruential uint64

func congruentialOf(number int) Congruential {
	return Congruential(number + 1)
}

func (r *Congruential) number() uint64 {
	*r = *r*6364136223846793005 + 1442695040888963407
	return uint64(*r >> 33)
}

// Returns a number of messages: a test divides it by the case's scale.
func (c Case) scaled(number int) int {
	if c.Scale > 1 && number > c.Scale {
		return number / c.Scale
	}
	return number
}

// The clock of a run.
type Stopwatch struct {
	begun time.Time
	used  time.Duration
}

func startWatch() Stopwatch {
	return Stopwatch{used: cpuTime(), begun: time.Now()}
}

func (w Stopwatch) stop() Reading {
	ms := func(time time.Duration) float64 { return float64(time.Nanoseconds()) / 1e6 }
	return Reading{"run_ms": ms(time.Since(w.begun)), "cpu_ms": ms(cpuTime() - w.used)}
}

// Ends the program with a failed outcome if the result is wrong.
func check[T comparable](what string, value, expected T) {
	if value != expected {
		wrong(fmt.Sprintf("%s: %v, not %v", what, value, expected))
	}
}

func wrong(text string) {
	fmt.Printf("{\"failed\":%q}\n", text)
	os.Exit(0)
}
