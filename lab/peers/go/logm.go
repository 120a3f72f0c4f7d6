package main

// Ten pairs of actors compute the terms of the logistic map.
func init() {
	const pairs, fullTerms = 10, 25000
	rate := func(number int) float64 { return 3.46 + 0.0025*float64(number) }
	start := func(number int) float64 { return 0.0025 * float64(number+1) }
	type result struct {
		number int
		x      float64
	}
	experiments["logm"] = func(c Case) Reading {
		terms := c.scaled(fullTerms)
		watch := startWatch()
		sink := newMailbox[result]()
		for number := 0; number < pairs; number++ {
			computer, controller := newMailbox[float64](), newMailbox[float64]()
			go func(rate float64) {
				for {
					x := computer.receive()
					controller.send(rate * x * (1 - x))
				}
			}(rate(number))
			go func(number int) {
				x := start(number)
				for i := 0; i < terms; i++ {
					computer.send(x)
					x = controller.receive()
				}
				sink.send(result{number, x})
			}(number)
		}
		var results [pairs]float64
		for range results {
			result := sink.receive()
			results[result.number] = result.x
		}
		reading := watch.stop()
		sum, expected := 0.0, 0.0
		for number, own := range results {
			r, x := rate(number), start(number)
			for i := 0; i < terms; i++ {
				x = r * x * (1 - x)
			}
			sum += own
			expected += x
		}
		check("the sum", sum, expected)
		return reading
	}
}
