package main

// The server of web: what is measured is its memory.
func init() {
	experiments["connections"] = serve
}
