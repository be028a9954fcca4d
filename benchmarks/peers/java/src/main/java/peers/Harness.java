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
    private static final int BATCH = 100;

    abstract void build(List<Subscription> subscriptions) throws Exception;

    /** An event as the peer wants it; not timed. */
    abstract E prepare(JsonNode event) throws Exception;

    /** The ids that match an event. */
    abstract List<Long> match(E event) throws Exception;

    /** Whether the peer can be asked for words of texts. */
    boolean knowsWords() {
        return false;
    }

    /** How many subscriptions match some events, all at once, where the peer can; -1 where it cannot. */
    long countAtOnce(List<E> events) throws Exception {
        return -1;
    }

    final void run(String[] arguments) throws Exception {
        List<Subscription> subscriptions = new ArrayList<>();
        for (JsonNode each : read(Path.of(arguments[0]))) {
            subscriptions.add(subscription(each));
        }
        try {
            for (Subscription each : subscriptions) {
                if (!knowsWords() && each.predicates().stream().anyMatch(one -> one.operator().startsWith("contains"))) {
                    throw new Skipped("it is not asked for words of texts");
                }
            }
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
        List<Double> singles = new ArrayList<>();
        long matches = 0;
        boolean atOnce = countAtOnce(events.subList(0, 1)) >= 0;
        for (int repeat = 0; repeat < REPEATS; repeat++) {
            int done = 0;
            matches = 0;
            long started = System.nanoTime();
            while (done < events.size() && (repeat > 0 || secondsSince(started) <= budget)) {
                List<E> part = events.subList(done, Math.min(events.size(), done + (atOnce ? BATCH : 1)));
                matches += atOnce ? countAtOnce(part) : match(part.get(0)).size();
                done += part.size();
            }
            seconds.add(secondsSince(started));
            events = events.subList(0, done);
        }
        long started = System.nanoTime();
        for (E event : events) {
            long before = System.nanoTime();
            match(event);
            singles.add(secondsSince(before) * 1e6);
            if (secondsSince(started) > budget) {
                break;
            }
        }
        singles.sort(null);
        System.out.printf(
                Locale.ROOT,
                "{\"build_s\": %f, \"events\": %d, \"matches\": %d, \"seconds\": %s, \"single_us\": %f}%n",
                built, events.size(), matches, JSON.writeValueAsString(seconds), singles.get(singles.size() / 2));
    }

    private static double secondsSince(long started) {
        return (System.nanoTime() - started) / 1e9;
    }
}
