package main

const (
	csllContains = iota
	csllInsert
	csllSize
)

type csllRequest struct {
	answer *Mailbox[int]
	kind   int
	value  uint64
}

type csllNode struct {
	value uint64
	next  *csllNode
}

// 20 workers ask one actor that owns a sorted linked list, and wait for each answer.
func init() {
	const workers, fullRequests, numbers = 20, 8000, 524287
	experiments["csll"] = func(c Case) Reading {
		requests := c.scaled(fullRequests)
		watch := startWatch()
		list, sink := newMailbox[csllRequest](), newMailbox[[2]int]()
		go csllList(list)
		for number := 0; number < workers; number++ {
			go func(number int) {
				own, random := newMailbox[int](), congruentialOf(number)
				answers, inserted := 0, 0
				for i := 0; i < requests; i++ {
					request := csllRequest{answer: own}
					switch kind := random.number() % 100; {
					case kind == 0:
						request.kind = csllSize
					case kind <= 10:
						request.kind, request.value = csllInsert, random.number()%numbers
					default:
						request.value = random.number() % numbers
					}
					list.send(request)
					answer := own.receive()
					answers++
					if request.kind == csllInsert {
						inserted += answer
					}
				}
				sink.send([2]int{answers, inserted})
			}(number)
		}
		answers, inserted := 0, 0
		for i := 0; i < workers; i++ {
			result := sink.receive()
			answers += result[0]
			inserted += result[1]
		}
		last := newMailbox[int]()
		list.send(csllRequest{answer: last, kind: csllSize})
		size := last.receive()
		reading := watch.stop()
		check("answers", answers, workers*requests)
		check("the size", size, inserted)
		return reading
	}
}

func csllList(own *Mailbox[csllRequest]) {
	var head *csllNode
	for {
		request, answer := own.receive(), 0
		if request.kind == csllSize {
			for node := head; node != nil; node = node.next {
				answer++
			}
		} else {
			place := &head
			for *place != nil && (*place).value < request.value {
				place = &(*place).next
			}
			isThere := *place != nil && (*place).value == request.value
			switch {
			case request.kind == csllContains && isThere:
				answer = 1
			case request.kind == csllInsert && !isThere:
				*place = &csllNode{request.value, *place}
				answer = 1
			}
		}
		request.answer.send(answer)
	}
}
