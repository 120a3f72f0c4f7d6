package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
)

const idleConnections = 1000

// The lab watches this process from outside, from when it says that all is parked
// until it closes the input.
func init() {
	experiments["idle"] = func(c Case) Reading {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		var arrived, finished sync.WaitGroup
		gate := make(chan struct{})
		arrived.Add(c.Threads)
		finished.Add(c.Threads)
		for i := 0; i < c.Threads-idleConnections; i++ {
			go func() {
				arrived.Done()
				<-gate
				finished.Done()
			}()
		}
		clients := make([]net.Conn, idleConnections)
		for i := range clients {
			client, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				panic(err)
			}
			clients[i] = client
			server, err := listener.Accept()
			if err != nil {
				panic(err)
			}
			go func() {
				arrived.Done()
				if _, err := server.Read(make([]byte, 64)); err != io.EOF {
					panic("no client has written")
				}
				finished.Done()
			}()
		}
		arrived.Wait()
		fmt.Println("parked")
		io.ReadAll(os.Stdin)
		for _, client := range clients {
			client.Close()
		}
		close(gate)
		finished.Wait()
		return Reading{}
	}
}
