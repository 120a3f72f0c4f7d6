package main

// 120 actors send pings to each other: each waits for a pong before its next ping.
func init() {
	const actors, fullPings = 120, 20000
	const pong = -1
	experiments["big"] = func(c Case) Reading {
		pings := c.scaled(fullPings)
		watch := startWatch()
		sink := newMailbox[int]()
		// A message is the number of the pinging actor, or a pong.
		mailboxes := make([]*Mailbox[int], actors)
		for number := range mailboxes {
			mailboxes[number] = newMailbox[int]()
		}
		actor := func(number int) {
			own, random, pongs := mailboxes[number], congruentialOf(number), 0
			ping := func() {
				other := int(random.number() % actors)
				if other == number {
					other = (number + 1) % actors
				}
				mailboxes[other].send(number)
			}
			ping()
			for {
				message := own.receive()
				if message != pong {
					mailboxes[message].send(pong)
					continue
				}
				pongs++
				if pongs == pings {
					sink.send(pongs)
				} else {
					ping()
				}
			}
		}
		for number := range mailboxes {
			go actor(number)
		}
		total := 0
		for range mailboxes {
			total += sink.receive()
		}
		reading := watch.stop()
		check("pongs", total, actors*pings)
		return reading
	}
}
