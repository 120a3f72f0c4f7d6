package main

import (
	"sort"
	"time"
)

// The time at which it was due, since the start of the posts.
type post struct {
	due time.Duration
}

// 1,000 groups post to 100,000 sessions, every 100 ms.
func init() {
	const fullSessions, groups, period = 100000, 1000, 100 * time.Millisecond
	experiments["pubsub"] = func(c Case) Reading {
		sessions, rounds := c.scaled(fullSessions), 20
		if c.Scale > 1 {
			rounds = 3
		}
		sink := newMailbox[[]time.Duration]()
		members := make([][]*Mailbox[*post], groups)
		var begun time.Time
		memberships := 0
		for number := 0; number < sessions; number++ {
			own, random := newMailbox[*post](), congruentialOf(number)
			joined := map[uint64]bool{}
			for left := 1 + random.number()%4; left > 0; left-- {
				joined[random.number()%groups] = true
			}
			for group := range joined {
				members[group] = append(members[group], own)
			}
			memberships += len(joined)
			go func(posts int) {
				latencies := make([]time.Duration, posts)
				for at := range latencies {
					post := own.receive()
					latencies[at] = time.Since(begun) - post.due
				}
				sink.send(latencies)
			}(rounds * len(joined))
		}
		// The sessions read this after a post, which is sent after the start.
		begun = time.Now()
		for _, subscribers := range members {
			go func(subscribers []*Mailbox[*post]) {
				for round := 0; round < rounds; round++ {
					message := &post{time.Duration(round) * period}
					time.Sleep(message.due - time.Since(begun))
					for _, subscriber := range subscribers {
						subscriber.send(message)
					}
				}
			}(subscribers)
		}
		var all []time.Duration
		for i := 0; i < sessions; i++ {
			all = append(all, sink.receive()...)
		}
		seconds := time.Since(begun).Seconds()
		check("deliveries", len(all), rounds*memberships)
		sum := time.Duration(0)
		for _, latency := range all {
			sum += latency
		}
		sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
		ms := func(latency time.Duration) float64 { return float64(latency.Nanoseconds()) / 1e6 }
		return Reading{
			"latency_ms":       ms(sum) / float64(len(all)),
			"p99_ms":           ms(all[(len(all)*99-1)/100]),
			"deliveries_per_s": float64(len(all)) / seconds,
		}
	}
}
