package main

import (
	"sync"
	"sync/atomic"
	"time"
)

// Counting what many goroutines do during one window of time: the phase turns
// from warming to open to over, and each goroutine looks at it once per operation.
type Window struct {
	phase   atomic.Int32
	started sync.WaitGroup
	span    time.Duration
	cpu     time.Duration
	done    chan struct{}
}

const (
	warming = iota
	open
	over
)

const longestWarmUp = 50 * time.Millisecond

// Opens as soon as all tallies exist.
func openWindow(goroutines int, length time.Duration) *Window {
	w := &Window{done: make(chan struct{})}
	w.started.Add(goroutines)
	go func() {
		w.started.Wait()
		warmUp := longestWarmUp
		if length/2 < warmUp {
			warmUp = length / 2
		}
		time.Sleep(warmUp)
		begun, used := time.Now(), cpuTime()
		w.phase.Store(open)
		time.Sleep(length)
		w.span, w.cpu = time.Since(begun), cpuTime()-used
		w.phase.Store(over)
		close(w.done)
	}()
	return w
}

func (w *Window) elapsed() time.Duration {
	<-w.done
	return w.span
}

func (w *Window) reading(total, void uint64) Reading {
	reading := w.plainReading(total)
	seconds := w.elapsed().Seconds()
	reading["ops_per_s"] = float64(total-void) / seconds
	reading["void_per_s"] = float64(void) / seconds
	return reading
}

func (w *Window) plainReading(total uint64) Reading {
	reading := Reading{"ops_per_s": float64(total) / w.elapsed().Seconds()}
	if total > 0 {
		reading["cpu_ns_per_op"] = float64(w.cpu.Nanoseconds()) / float64(total)
	}
	return reading
}

// One goroutine's count.
type Tally struct {
	w           *Window
	phase       int32
	count, void uint64
}

func (w *Window) tally() *Tally {
	w.started.Done()
	return &Tally{w: w}
}

// Counts one operation. Returns whether the goroutine goes on.
func (t *Tally) tick(void bool) bool {
	t.count++
	if void {
		t.void++
	}
	phase := t.w.phase.Load()
	if phase != t.phase {
		if t.phase == warming {
			// Also of one that slept through the whole window.
			t.count, t.void = 0, 0
		}
		t.phase = phase
	}
	return phase != over
}

// Xorshift: the same numbers in every run.
type Random uint64

func randomOf(number int) Random {
	return Random(uint64(number+1) * 0x9E3779B97F4A7C15)
}

func (r *Random) below(bound int) int {
	x := uint64(*r)
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	*r = Random(x)
	return int(((x >> 32) * uint64(bound)) >> 32)
}

// Goroutines that begin together; each returns its tally.
func crowd(goroutines int, body func(number int) *Tally) (total, void uint64) {
	gate := make(chan struct{})
	tallies := make([]*Tally, goroutines)
	var arrived, finished sync.WaitGroup
	arrived.Add(goroutines)
	finished.Add(goroutines)
	for number := 0; number < goroutines; number++ {
		go func(number int) {
			arrived.Done()
			<-gate
			tallies[number] = body(number)
			finished.Done()
		}(number)
	}
	arrived.Wait()
	close(gate)
	finished.Wait()
	for _, t := range tallies {
		if t != nil {
			total += t.count
			void += t.void
		}
	}
	return total, void
}
