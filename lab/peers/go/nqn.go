package main

// A board: the columns of its queens, by row. A message of the master's or for it.
type nqnMessage struct {
	board      []int8
	isFinished bool
	solutions  int
}

// 20 workers count the solutions of 12 queens. Boards with fewer than four queens come back to
// the master as new work.
func init() {
	const workers, threshold = 20, 4
	experiments["nqn"] = func(c Case) Reading {
		queens, expected := 12, 14200
		if c.Scale > 1 {
			queens, expected = 8, 92
		}
		watch := startWatch()
		master := newMailbox[nqnMessage]()
		team := make([]*Mailbox[[]int8], workers)
		for number := range team {
			own := newMailbox[[]int8]()
			team[number] = own
			go func() {
				for {
					board := own.receive()
					depth, solutions := len(board), 0
					if depth < threshold {
						for column := int8(0); column < int8(queens); column++ {
							if nqnSafe(board, column) {
								next := append(append(make([]int8, 0, depth+1), board...), column)
								master.send(nqnMessage{board: next})
							}
						}
					} else {
						whole := append(make([]int8, 0, queens), board...)
						solutions = nqnSolve(whole, queens)
					}
					master.send(nqnMessage{isFinished: true, solutions: solutions})
				}
			}()
		}
		team[0].send(nil)
		turn, open, found := 1, 1, 0
		for open > 0 {
			message := master.receive()
			if message.isFinished {
				open--
				found += message.solutions
			} else {
				team[turn].send(message.board)
				turn = (turn + 1) % workers
				open++
			}
		}
		reading := watch.stop()
		check("solutions", found, expected)
		return reading
	}
}

func nqnSafe(board []int8, column int8) bool {
	for row, other := range board {
		distance := int8(len(board) - row)
		if other == column || other == column+distance || other == column-distance {
			return false
		}
	}
	return true
}

func nqnSolve(board []int8, queens int) int {
	if len(board) == queens {
		return 1
	}
	found := 0
	for column := int8(0); column < int8(queens); column++ {
		if nqnSafe(board, column) {
			found += nqnSolve(append(board, column), queens)
		}
	}
	return found
}
