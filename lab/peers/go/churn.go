package main

import (
	"sync/atomic"
	"time"
)

// A counting semaphore is a channel with room for all permits.
type spot chan []uint64

func churn(c Case, spots int, share bool, work func([]uint64, *Random), data func() []uint64) Reading {
	field := make([]spot, spots)
	for i := range field {
		field[i] = make(spot, 3*c.Threads)
	}
	var dissolved atomic.Bool
	w := openWindow(c.Threads, c.window())
	settled := make(chan struct{})
	var standing atomic.Int32
	go func() {
		for int(standing.Load()) < spots {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(5 * time.Millisecond)
		close(settled)
	}()
	total, void := crowd(c.Threads, func(number int) *Tally {
		random := randomOf(number)
		own := data()
		t := w.tally()
		if number < spots {
			standing.Add(1)
			if got := <-field[number]; share {
				own = got
			}
		} else {
			<-settled
		}
		for {
			at := field[random.below(spots)]
			if own != nil {
				work(own, &random)
			}
			if share {
				at <- own
			} else {
				at <- nil
			}
			found := false
			var got []uint64
			select {
			case got = <-at:
				// Another's permit, or its own because no other goroutine waited.
				found = true
			default:
				got = <-at
			}
			if share {
				own = got
			}
			if !t.tick(found) {
				if !dissolved.Swap(true) {
					for _, s := range field {
						for i := 0; i < c.Threads; i++ {
							s <- nil
						}
					}
				}
				return t
			}
		}
	})
	return w.reading(total, void)
}

func init() {
	experiments["churn"] = func(c Case) Reading {
		return churn(c, c.amount()*c.Processors, false, func([]uint64, *Random) {}, func() []uint64 { return nil })
	}
}
