package main

import (
	"bytes"
	"fmt"
	"net"
)

var (
	endOfHead = []byte("\r\n\r\n")
	reply     = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, world!")
)

func session(connection net.Conn) {
	defer connection.Close()
	buffer := make([]byte, 2048)
	for {
		count, err := connection.Read(buffer)
		if err != nil {
			return
		}
		for heads := bytes.Count(buffer[:count], endOfHead); heads > 0; heads-- {
			if _, err := connection.Write(reply); err != nil {
				return
			}
		}
	}
}

// A server that says its port, and serves until it is stopped.
func init() {
	experiments["web"] = func(Case) Reading {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		fmt.Println(listener.Addr().(*net.TCPAddr).Port)
		for {
			connection, err := listener.Accept()
			if err != nil {
				panic(err)
			}
			go session(connection)
		}
	}
}
