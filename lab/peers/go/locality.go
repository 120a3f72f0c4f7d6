package main

const (
	cells   = 4096
	touched = 100
)

func init() {
	experiments["locality"] = func(c Case) Reading {
		work := func(data []uint64, random *Random) {
			for i := 0; i < touched; i++ {
				data[random.below(cells)]++
			}
		}
		return churn(c, c.Threads/2, c.Variant == "share", work, func() []uint64 { return make([]uint64, cells) })
	}
}
