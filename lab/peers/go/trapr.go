package main

import (
	"fmt"
	"math"
)

// 100 workers compute one part each of an integral, by the trapezoid rule.
func init() {
	const workers, fullPieces = 100, 10000000
	const left, right = 1.0, 5.0
	f := func(x float64) float64 {
		return 1 / (x + 1) * math.Sqrt(1+math.Exp(math.Sqrt(2*x))) * math.Sin(x*x*x-1)
	}
	area := func(first, pieces int, width float64) float64 {
		before, sum := f(left+float64(first)*width), 0.0
		for next := first + 1; next <= first+pieces; next++ {
			value := f(left + float64(next)*width)
			sum += (before + value) * 0.5
			before = value
		}
		return sum * width
	}
	type result struct {
		part int
		area float64
	}
	experiments["trapr"] = func(c Case) Reading {
		pieces := c.scaled(fullPieces)
		each, width := pieces/workers, (right-left)/float64(pieces)
		watch := startWatch()
		master := newMailbox[result]()
		for part := 0; part < workers; part++ {
			go func(part int) { master.send(result{part, area(part*each, each, width)}) }(part)
		}
		var parts [workers]float64
		for range parts {
			result := master.receive()
			parts[result.part] = result.area
		}
		sum := 0.0
		for _, part := range parts {
			sum += part
		}
		reading := watch.stop()
		// The sum changes by far less than the tolerance if the pieces are ten times as wide.
		expected := area(0, pieces/10, 10*width)
		if !(math.Abs(sum-expected) < 1e-6) {
			wrong(fmt.Sprintf("the integral: %v, not %v", sum, expected))
		}
		return reading
	}
}
