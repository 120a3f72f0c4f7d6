package main

import "sync"

const (
	senders    = 64
	batchSize  = 64
	stages     = 50
	travellers = 10
	// Go's channels have a bound; this one is never reached.
	room = senders*batchSize + 1
)

func init() {
	experiments["channel"] = func(c Case) Reading {
		switch c.Variant {
		case "fan-in":
			return fanIn(c)
		case "pipeline":
			return pipeline(c)
		}
		return pingPong(c)
	}
}

func pingPong(c Case) Reading {
	pairs := c.Threads / 2
	requests, replies := make([]chan uint64, pairs), make([]chan uint64, pairs)
	for i := range requests {
		requests[i], replies[i] = make(chan uint64, 1), make(chan uint64, 1)
	}
	w := openWindow(pairs, c.window())
	total, void := crowd(c.Threads, func(number int) *Tally {
		request, reply := requests[number/2], replies[number/2]
		if number%2 == 1 {
			for n := range request {
				reply <- n
			}
			return nil
		}
		t := w.tally()
		for n := uint64(1); ; n++ {
			request <- n
			found := len(reply) > 0
			if <-reply != n {
				panic("another's reply")
			}
			if !t.tick(found) {
				close(request)
				return t
			}
		}
	})
	return w.reading(total, void)
}

func fanIn(c Case) Reading {
	messages := make(chan int, room)
	credit := make([]chan struct{}, senders)
	for i := range credit {
		credit[i] = make(chan struct{}, 1)
	}
	w := openWindow(1, c.window())
	var sending sync.WaitGroup
	sending.Add(senders)
	go func() {
		sending.Wait()
		close(messages)
	}()
	total, _ := crowd(senders+1, func(number int) *Tally {
		if number < senders {
			for w.phase.Load() != over {
				for i := 0; i < batchSize; i++ {
					messages <- number
				}
				<-credit[number]
			}
			sending.Done()
			return nil
		}
		t := w.tally()
		outstanding := [senders]int{}
		goesOn := true
		for from := range messages {
			outstanding[from]++
			if outstanding[from] == batchSize {
				outstanding[from] = 0
				credit[from] <- struct{}{}
			}
			if goesOn {
				goesOn = t.tick(false)
			}
		}
		return t
	})
	return w.plainReading(total)
}

func pipeline(c Case) Reading {
	links := make([]chan uint64, stages)
	for i := range links {
		links[i] = make(chan uint64, travellers)
	}
	for n := uint64(0); n < travellers; n++ {
		links[1] <- n
	}
	w := openWindow(stages, c.window())
	total, _ := crowd(stages, func(number int) *Tally {
		in, out := links[number], links[(number+1)%stages]
		t := w.tally()
		for traveller := range in {
			if !t.tick(false) {
				break
			}
			out <- traveller
		}
		close(out)
		for range in {
		}
		return t
	})
	return w.plainReading(total)
}
