package main

import (
	"sort"
	"time"
)

// All times of an experiment, and how often each counts.
type Latency struct {
	times []weighted
	total uint64
}

type weighted struct {
	time   time.Duration
	weight uint64
}

func (l *Latency) note(t time.Duration) { l.noteFor(t, 1) }

func (l *Latency) noteFor(t time.Duration, weight uint64) {
	if t < 0 {
		t = 0
	}
	l.times = append(l.times, weighted{t, weight})
	l.total += weight
}

func (l *Latency) count() int { return len(l.times) }

func (l *Latency) meanUs() float64 {
	sum := 0.0
	for _, t := range l.times {
		sum += float64(t.time.Nanoseconds()) * float64(t.weight)
	}
	return sum / float64(l.total) / 1e3
}

func (l *Latency) readInto(r Reading) {
	if l.total == 0 {
		return
	}
	sort.Slice(l.times, func(a, b int) bool { return l.times[a].time < l.times[b].time })
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"p9999", 0.9999}} {
		if q.at > 0.5 && float64(l.total)*(1-q.at) < 10 {
			continue
		}
		left := uint64(q.at * float64(l.total))
		for _, t := range l.times {
			if t.weight > left {
				r[q.name+"_us"] = float64(t.time.Nanoseconds()) / 1e3
				break
			}
			left -= t.weight
		}
	}
	r["max_us"] = float64(l.times[len(l.times)-1].time.Nanoseconds()) / 1e3
}
