package peers;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** The frame of a peer in Java: read, build, answer, time, tell. benchmarks/peers/__init__.py has the protocol. */
abstract class Harness<E> {
    /** The files are more than the peer can express. */
    static final class Skipped extends RuntimeException {
        Skipped(String reason) {
            super(reason);
        }
    }

    /** One predicate of the bulk form. */
    record Predicate(String attribute, String operator, JsonNode operand) {}

    record Subscription(long id, List<Predicate> predicates) {}

    static final ObjectMapper JSON = new ObjectMapper();
    private static final int REPEATS = 3;

    abstract void build(List<Subscription> subscriptions) throws Exception;

    /** An event as the peer wants it; not timed. */
    abstract E prepare(JsonNode event) throws Exception;

    /** The ids that match an event. */
    abstract List<Long> match(E event) throws Exception;

    final void run(String[] arguments) throws Exception {
        List<Subscription> subscriptions = new ArrayList<>();
        for (JsonNode each : read(Path.of(arguments[0]))) {
            subscriptions.add(subscription(each));
        }
        try {
            long started = System.nanoTime();
            build(subscriptions);
            double built = secondsSince(started);
            List<E> events = new ArrayList<>();
            for (JsonNode each : read(Path.of(arguments[1]))) {
                events.add(prepare(each));
            }
            answer(events.subList(0, Math.min(Integer.parseInt(arguments[2]), events.size())), Path.of(arguments[4]));
            time(events, Double.parseDouble(arguments[3]), built);
        } catch (Skipped reason) {
            System.out.println(JSON.writeValueAsString(Map.of("skipped", reason.getMessage())));
        }
    }

    private static List<JsonNode> read(Path path) throws IOException {
        List<JsonNode> found = new ArrayList<>();
        for (String line : Files.readAllLines(path)) {
            if (!line.isBlank()) {
                found.add(JSON.readTree(line));
            }
        }
        return found;
    }

    private static Subscription subscription(JsonNode document) {
        List<Predicate> predicates = new ArrayList<>();
        for (JsonNode each : document.get("predicates")) {
            predicates.add(new Predicate(each.get(0).asText(), each.get(1).asText(), each.get(2)));
        }
        return new Subscription(document.get("id").asLong(), predicates);
    }

    private void answer(List<E> events, Path path) throws Exception {
        try (PrintWriter file = new PrintWriter(Files.newBufferedWriter(path))) {
            for (E event : events) {
                file.println(JSON.writeValueAsString(match(event)));
            }
        }
    }

    private void time(List<E> events, double budget, double built) throws Exception {
        List<Double> seconds = new ArrayList<>();
        long matches = 0;
        for (int repeat = 0; repeat < REPEATS; repeat++) {
            int done = 0;
            matches = 0;
            long started = System.nanoTime();
            for (E event : events) {
                matches += match(event).size();
                done++;
                if (repeat == 0 && secondsSince(started) > budget) {
                    break;
                }
            }
            seconds.add(secondsSince(started));
            events = events.subList(0, done);
        }
        System.out.printf(
                Locale.ROOT,
                "{\"build_s\": %f, \"events\": %d, \"matches\": %d, \"seconds\": %s}%n",
                built, events.size(), matches, JSON.writeValueAsString(seconds));
    }

    private static double secondsSince(long started) {
        return (System.nanoTime() - started) / 1e9;
    }
}
