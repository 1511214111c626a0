package store

// Waiting returns how many keys are waited for by Tails that came before their log.
func Waiting(m *Memory) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.waiting)
}
