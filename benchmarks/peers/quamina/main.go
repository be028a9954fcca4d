// quamina on the two files of a comparison; benchmarks/peers/__init__.py has the protocol.
//
// It knows equality only (its anything-but takes texts alone): files with ranges or != are skipped. It compares numbers
// as they are written, which is enough for integers. Events are given as JSON text, so parsing them is timed.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/timbray/quamina"
)

const repeats = 3

type subscription struct {
	ID         int64               `json:"id"`
	Predicates [][]json.RawMessage `json:"predicates"`
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func show(figures map[string]any) {
	line, err := json.Marshal(figures)
	check(err)
	fmt.Println(string(line))
}

func lines(path string) [][]byte {
	file, err := os.Open(path)
	check(err)
	defer file.Close()
	var found [][]byte
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<24)
	for scanner.Scan() {
		if strings.TrimSpace(scanner.Text()) != "" {
			found = append(found, append([]byte(nil), scanner.Bytes()...))
		}
	}
	check(scanner.Err())
	return found
}

// pattern returns a subscription as quamina writes it, and whether any event can match it.
func pattern(from subscription) (string, bool, error) {
	fields := map[string][]json.RawMessage{}
	for _, predicate := range from.Predicates {
		var attribute, operator string
		check(json.Unmarshal(predicate[0], &attribute))
		check(json.Unmarshal(predicate[1], &operator))
		if operator != "=" {
			return "", false, fmt.Errorf("quamina knows equality only; subscription %d has %s", from.ID, operator)
		}
		// A field's values are alternatives, so a second, different value must not be added: nothing equals both.
		if before, twice := fields[attribute]; twice && string(before[0]) != string(predicate[2]) {
			return "", false, nil
		}
		fields[attribute] = []json.RawMessage{predicate[2]}
	}
	text, err := json.Marshal(fields)
	return string(text), true, err
}

func match(matcher *quamina.Quamina, event []byte) []quamina.X {
	found, err := matcher.MatchesForEvent(event)
	check(err)
	return found
}

func main() {
	checked, err := strconv.Atoi(os.Args[3])
	check(err)
	budget, err := strconv.ParseFloat(os.Args[4], 64)
	check(err)
	var subscriptions []subscription
	for _, line := range lines(os.Args[1]) {
		var read subscription
		check(json.Unmarshal(line, &read))
		subscriptions = append(subscriptions, read)
	}
	events := lines(os.Args[2])

	started := time.Now()
	matcher, err := quamina.New()
	check(err)
	for _, each := range subscriptions {
		text, possible, err := pattern(each)
		if err != nil {
			show(map[string]any{"skipped": err.Error()})
			return
		}
		if possible {
			check(matcher.AddPattern(each.ID, text))
		}
	}
	build := time.Since(started).Seconds()

	answers, err := os.Create(os.Args[5])
	check(err)
	for _, event := range events[:min(checked, len(events))] {
		found := match(matcher, event)
		if found == nil {
			found = []quamina.X{}
		}
		check(json.NewEncoder(answers).Encode(found))
	}
	check(answers.Close())

	var seconds []float64
	matches := 0
	for repeat := 0; repeat < repeats; repeat++ {
		started, done := time.Now(), 0
		matches = 0
		for _, event := range events {
			matches += len(match(matcher, event))
			done++
			if repeat == 0 && time.Since(started).Seconds() > budget {
				break
			}
		}
		seconds = append(seconds, time.Since(started).Seconds())
		events = events[:done]
	}
	show(map[string]any{"build_s": build, "events": len(events), "matches": matches, "seconds": seconds})
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}
