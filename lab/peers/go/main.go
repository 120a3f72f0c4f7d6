// The lab's experiments for Go: one file for each, which registers itself under
// the experiment's name. The program takes a case as JSON and prints its outcome
// as one line of JSON, as a child of the lab does.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"
)

// The measurement that the lab asks for.
type Case struct {
	Experiment string  `json:"experiment"`
	Processors int     `json:"processors"`
	Threads    int     `json:"threads"`
	Variant    string  `json:"variant"`
	Seconds    float64 `json:"seconds"`
	// A test's: how much smaller an actor benchmark is. 0 is the full size.
	Scale int `json:"scale"`
}

func (c Case) window() time.Duration {
	return time.Duration(c.Seconds * float64(time.Second))
}

func (c Case) amount() int {
	n, err := strconv.Atoi(c.Variant)
	if err != nil {
		panic(err)
	}
	return n
}

type Reading map[string]float64

var experiments = map[string]func(Case) Reading{}

func main() {
	var c Case
	if err := json.Unmarshal([]byte(os.Args[1]), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	runtime.GOMAXPROCS(c.Processors)
	experiment, known := experiments[c.Experiment]
	if !known {
		fmt.Fprintln(os.Stderr, "no experiment:", c.Experiment)
		os.Exit(2)
	}
	line, err := json.Marshal(map[string]Reading{"measured": experiment(c)})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	fmt.Println(string(line))
}
