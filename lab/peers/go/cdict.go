package main

type cdictRequest struct {
	answer  *Mailbox[cdictAnswer]
	key     uint64
	isWrite bool
	word    uint64
	words   []uint64
}

type cdictAnswer struct {
	isThere bool
	word    uint64
	words   []uint64
}

// 20 workers ask one actor that owns a dictionary, and wait for each answer.
func init() {
	const workers, fullRequests, keys = 20, 10000, 512
	experiments["cdict"] = func(c Case) Reading {
		percent, words := uint64(10), 0
		if c.Variant != "-" {
			percent, words = 20, c.amount()
		}
		requests := c.scaled(fullRequests)
		watch := startWatch()
		dictionary, sink := newMailbox[cdictRequest](), newMailbox[[2]int]()
		last := newMailbox[int]()
		go cdictDictionary(dictionary, words > 0, last)
		for number := 0; number < workers; number++ {
			go func(number int) {
				own, random := newMailbox[cdictAnswer](), congruentialOf(number)
				answers, writes := 0, 0
				for i := 0; i < requests; i++ {
					isWrite := random.number()%100 < percent
					request := cdictRequest{answer: own, key: random.number() % keys, isWrite: isWrite, word: uint64(i)}
					if isWrite {
						writes++
						if words > 0 {
							request.words = make([]uint64, words)
							for at := range request.words {
								request.words[at] = uint64(i)
							}
						}
					}
					dictionary.send(request)
					own.receive()
					answers++
				}
				sink.send([2]int{answers, writes})
			}(number)
		}
		answers, writes := 0, 0
		for i := 0; i < workers; i++ {
			result := sink.receive()
			answers += result[0]
			writes += result[1]
		}
		reading := watch.stop()
		dictionary.send(cdictRequest{})
		check("answers", answers, workers*requests)
		check("writes", last.receive(), writes)
		return reading
	}
}

// A request without a mailbox is the last one.
func cdictDictionary(own *Mailbox[cdictRequest], hasVectors bool, last *Mailbox[int]) {
	words, vectors, writes := map[uint64]uint64{}, map[uint64][]uint64{}, 0
	for {
		request := own.receive()
		answer := cdictAnswer{}
		switch {
		case request.answer == nil:
			last.send(writes)
			return
		case request.isWrite && hasVectors:
			vectors[request.key] = request.words
			writes++
		case request.isWrite:
			words[request.key] = request.word
			writes++
		case hasVectors:
			value, isThere := vectors[request.key]
			answer.isThere = isThere
			if isThere {
				answer.words = append(make([]uint64, 0, len(value)), value...)
			}
		default:
			answer.word, answer.isThere = words[request.key]
		}
		request.answer.send(answer)
	}
}
