package main

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

func residentBytes() float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "VmRSS:") {
			kib, err := strconv.Atoi(strings.Fields(line)[1])
			if err != nil {
				panic(err)
			}
			return float64(kib) * 1024
		}
	}
	panic("no VmRSS")
}

// A channel for each goroutine is what unparks it.
func init() {
	experiments["memory"] = func(c Case) Reading {
		before := residentBytes()
		parked := make([]chan struct{}, c.Threads)
		var arrived, finished sync.WaitGroup
		arrived.Add(c.Threads)
		finished.Add(c.Threads)
		for i := range parked {
			parked[i] = make(chan struct{})
			go func(own chan struct{}) {
				arrived.Done()
				<-own
				finished.Done()
			}(parked[i])
		}
		arrived.Wait()
		after := residentBytes()
		for _, own := range parked {
			close(own)
		}
		finished.Wait()
		return Reading{"bytes_per_thread": (after - before) / float64(c.Threads)}
	}
}
