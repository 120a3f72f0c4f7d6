package main

import (
	"bytes"
	"fmt"
	"net"
)

var (
	endOfHead = []byte("\r\n\r\n")
	reply     = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, world!")
	lastReply = []byte("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, world!")
)

// The variant in which a connection has one request only.
const oneEach = "a connection for each request"

func session(connection net.Conn, closes bool) {
	defer connection.Close()
	buffer := make([]byte, 1024)
	answer := reply
	if closes {
		answer = lastReply
	}
	for {
		count, err := connection.Read(buffer)
		if err != nil {
			return
		}
		for heads := bytes.Count(buffer[:count], endOfHead); heads > 0; heads-- {
			if _, err := connection.Write(answer); err != nil || closes {
				return
			}
		}
	}
}

// A server that says its port, and serves until it is stopped.
func serve(c Case) Reading {
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
		go session(connection, c.Variant == oneEach)
	}
}

func init() {
	experiments["web"] = serve
}
