package main

// 1,000 actors send 1,000 messages each to one receiver, without waiting.
func init() {
	const senders, fullMessages = 1000, 1000
	experiments["bang"] = func(c Case) Reading {
		messages := c.scaled(fullMessages)
		watch := startWatch()
		receiver, sink := newMailbox[uint64](), newMailbox[[2]uint64]()
		go func() {
			count, sum := uint64(0), uint64(0)
			for count < uint64(senders*messages) {
				sum += receiver.receive()
				count++
			}
			sink.send([2]uint64{count, sum})
		}()
		told := make([]*Mailbox[struct{}], senders)
		for number := range told {
			told[number] = newMailbox[struct{}]()
			go func(own *Mailbox[struct{}], number uint64) {
				own.receive()
				for i := 0; i < messages; i++ {
					receiver.send(number)
				}
			}(told[number], uint64(number))
		}
		for _, sender := range told {
			sender.send(struct{}{})
		}
		result := sink.receive()
		reading := watch.stop()
		check("messages", result[0], uint64(senders*messages))
		check("the sum", result[1], uint64(messages*(senders*(senders-1)/2)))
		return reading
	}
}
