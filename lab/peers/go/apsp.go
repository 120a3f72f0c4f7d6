package main

const apspBlock = 50

type apspWeights [apspBlock * apspBlock]uint32

// The block of an actor at a step. Its receivers share it, and nobody changes it.
type apspMessage struct {
	step, row, column int
	block             *apspWeights
}

func apspWeight(i, j int) uint32 {
	if i == j {
		return 0
	}
	random := congruentialOf(i*300 + j)
	return uint32(random.number()%100 + 1)
}

// Shortest paths between 300 nodes, by 36 actors that hold a block of 50 x 50 each.
func init() {
	experiments["apsp"] = func(c Case) Reading {
		side := 6
		if c.Scale > 1 {
			side = 2
		}
		nodes := side * apspBlock
		watch := startWatch()
		sink := newMailbox[uint64]()
		mailboxes := make([]*Mailbox[apspMessage], side*side)
		for number := range mailboxes {
			mailboxes[number] = newMailbox[apspMessage]()
		}
		for number := range mailboxes {
			go apspActor(number/side, number%side, side, mailboxes, sink)
		}
		sum := uint64(0)
		for range mailboxes {
			sum += sink.receive()
		}
		reading := watch.stop()
		check("the sum of distances", sum, apspSequential(nodes))
		return reading
	}
}

func apspActor(row, column, side int, mailboxes []*Mailbox[apspMessage], sink *Mailbox[uint64]) {
	block := new(apspWeights)
	for at := range block {
		block[at] = apspWeight(row*apspBlock+at/apspBlock, column*apspBlock+at%apspBlock)
	}
	own := mailboxes[row*side+column]
	var later []apspMessage
	for step := 0; step < side*apspBlock; step++ {
		message := apspMessage{step, row, column, block}
		for other := 0; other < side; other++ {
			if other != column {
				mailboxes[row*side+other].send(message)
			}
			if other != row {
				mailboxes[other*side+column].send(message)
			}
		}
		// The blocks above and below hold the way from k, those beside it the way to k.
		pivot, from, to := step/apspBlock, block, block
		left := 2 * (side - 1)
		take := func(message apspMessage) {
			left--
			if message.row == pivot && message.column == column {
				from = message.block
			}
			if message.column == pivot && message.row == row {
				to = message.block
			}
		}
		kept := later[:0]
		for _, message := range later {
			if message.step == step {
				take(message)
			} else {
				kept = append(kept, message)
			}
		}
		later = kept
		for left > 0 {
			message := own.receive()
			if message.step == step {
				take(message)
			} else {
				later = append(later, message)
			}
		}
		within := step % apspBlock
		ways := from[within*apspBlock : (within+1)*apspBlock]
		next := new(apspWeights)
		for i := 0; i < apspBlock; i++ {
			length := to[i*apspBlock+within]
			old, line := block[i*apspBlock:(i+1)*apspBlock], next[i*apspBlock:(i+1)*apspBlock]
			for j, way := range ways {
				distance := old[j]
				if length+way < distance {
					distance = length + way
				}
				line[j] = distance
			}
		}
		block = next
	}
	sum := uint64(0)
	for _, distance := range block {
		sum += uint64(distance)
	}
	sink.send(sum)
}

func apspSequential(nodes int) uint64 {
	distances := make([]uint32, nodes*nodes)
	for at := range distances {
		distances[at] = apspWeight(at/nodes, at%nodes)
	}
	for k := 0; k < nodes; k++ {
		for at, old := range distances {
			if way := distances[at/nodes*nodes+k] + distances[k*nodes+at%nodes]; way < old {
				distances[at] = way
			}
		}
	}
	sum := uint64(0)
	for _, distance := range distances {
		sum += uint64(distance)
	}
	return sum
}
