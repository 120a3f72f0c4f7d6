package main

import (
	"sync"
	"syscall"
	"time"
)

const calibration = 15 * time.Millisecond

var sink uint64

// A piece of computing: a number of steps, each of which needs the one before.
type unit struct{ steps uint64 }

//go:noinline
func (u unit) compute() uint64 {
	x := uint64(1)
	for i := uint64(0); i < u.steps; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

func calibrate(length time.Duration, atOnce int) unit {
	u := unit{uint64(length.Nanoseconds())/2 + 1}
	for i := 0; i < 2; i++ {
		u.steps = uint64(float64(u.steps) * float64(length.Nanoseconds()) / u.measuredNs(atOnce))
	}
	return u
}

// The mean of that many goroutines at once, each the shortest of its rounds.
func (u unit) measuredNs(atOnce int) float64 {
	least := make([]float64, atOnce)
	var finished sync.WaitGroup
	finished.Add(atOnce)
	for n := 0; n < atOnce; n++ {
		go func(n int) {
			defer finished.Done()
			var seen uint64
			for begun := time.Now(); time.Since(begun) < calibration; {
				round, turns := time.Now(), 0
				for turns < 4 || time.Since(round) < 200*time.Microsecond {
					seen += u.compute() + u.compute() + u.compute() + u.compute()
					turns += 4
				}
				ns := float64(time.Since(round).Nanoseconds()) / float64(turns)
				if least[n] == 0 || ns < least[n] {
					least[n] = ns
				}
			}
			if seen == 0 {
				sink++
			}
		}(n)
	}
	finished.Wait()
	sum := 0.0
	for _, ns := range least {
		sum += ns
	}
	return sum / float64(atOnce)
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

type turns struct {
	total, fewest, most uint64
	elapsed, cpu        time.Duration
	unitNs              float64
}

func (t turns) cores() float64 {
	return float64(t.total) * 2 * t.unitNs / float64(t.elapsed.Nanoseconds())
}

func loops(c Case, locks int, work time.Duration) turns {
	atOnce := c.Processors
	if c.Threads < atOnce {
		atOnce = c.Threads
	}
	u := calibrate(work, atOnce)
	before := u.measuredNs(atOnce)
	all := make([]struct {
		sync.Mutex
		_ [120]byte
	}, locks)
	w := openWindow(c.Threads, c.window())
	counts := make([]uint64, c.Threads)
	total, _ := crowd(c.Threads, func(number int) *Tally {
		random := randomOf(number)
		t := w.tally()
		var seen uint64
		for {
			seen += u.compute()
			lock := &all[random.below(locks)]
			lock.Lock()
			seen += u.compute()
			lock.Unlock()
			if !t.tick(false) {
				if seen == 0 {
					sink++
				}
				counts[number] = t.count
				return t
			}
		}
	})
	result := turns{total: total, fewest: counts[0], elapsed: w.elapsed()}
	for _, count := range counts {
		if count < result.fewest {
			result.fewest = count
		}
		if count > result.most {
			result.most = count
		}
	}
	result.unitNs = (before + u.measuredNs(atOnce)) / 2
	result.cpu = w.cpu
	return result
}
