package main

// The server of web. The lab measures its memory.
func init() {
	experiments["connections"] = serve
}
