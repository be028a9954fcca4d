package peers;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import software.amazon.event.ruler.GenericMachine;

/**
 * event-ruler: one rule per subscription.
 *
 * <p>The patterns of a rule's field are alternatives, so what a subscription asks of one attribute becomes a single
 * pattern, or alternatives that exclude one another: an interval with holes is several intervals.
 */
final class EventRuler extends Harness<JsonNode> {
    private static final long LIMIT = 5_000_000_000L; // beyond it event-ruler's numeric comparison is not defined

    // Not withAdditionalNameStateReuse: with ranges, building takes several times as long.
    private final GenericMachine<Long> machine = new GenericMachine<>();

    public static void main(String[] arguments) throws Exception {
        new EventRuler().run(arguments);
    }

    @Override
    void build(List<Subscription> subscriptions) throws Exception {
        for (Subscription each : subscriptions) {
            ObjectNode rule = rule(each);
            if (rule != null) {
                machine.addRule(each.id(), rule.toString());
            }
        }
    }

    @Override
    JsonNode prepare(JsonNode event) {
        event.forEach(EventRuler::refuseBeyondLimit);
        return event;
    }

    @Override
    List<Long> match(JsonNode event) {
        return machine.rulesForJSONEvent(event);
    }

    /** The rule of a subscription; null where its predicates exclude one another, since nothing matches it. */
    private static ObjectNode rule(Subscription subscription) {
        Map<String, Asked> fields = new LinkedHashMap<>();
        for (Predicate each : subscription.predicates()) {
            refuseBeyondLimit(each.operand());
            fields.computeIfAbsent(each.attribute(), name -> new Asked()).add(each);
        }
        ObjectNode rule = JSON.createObjectNode();
        for (var field : fields.entrySet()) {
            ArrayNode patterns = field.getValue().patterns();
            if (patterns.isEmpty()) {
                return null;
            }
            rule.set(field.getKey(), patterns);
        }
        return rule;
    }

    private static void refuseBeyondLimit(JsonNode value) {
        if (value.isNumber() && Math.abs(value.asLong()) > LIMIT) {
            throw new Skipped("event-ruler compares numbers up to " + LIMIT + " only; there is " + value);
        }
    }

    /** What a subscription asks of one attribute: texts wanted and excluded, or integers within bounds and excluded. */
    private static final class Asked {
        private final TreeSet<String> wanted = new TreeSet<>();
        private final TreeSet<String> excludedTexts = new TreeSet<>();
        private final TreeSet<Long> excluded = new TreeSet<>();
        private long low = -LIMIT;
        private long high = LIMIT;

        void add(Predicate predicate) {
            if (predicate.operand().isTextual()) {
                (predicate.operator().equals("=") ? wanted : excludedTexts).add(predicate.operand().asText());
                return;
            }
            long value = predicate.operand().asLong();
            switch (predicate.operator()) {
                case "!=" -> excluded.add(value);
                case "<" -> high = Math.min(high, value - 1);
                case "<=" -> high = Math.min(high, value);
                case ">" -> low = Math.max(low, value + 1);
                case ">=" -> low = Math.max(low, value);
                default -> {
                    low = Math.max(low, value);
                    high = Math.min(high, value);
                }
            }
        }

        /** The alternatives of the field, none where nothing satisfies it. */
        ArrayNode patterns() {
            ArrayNode patterns = JSON.createArrayNode();
            if (!wanted.isEmpty() || !excludedTexts.isEmpty()) {
                addTexts(patterns);
            } else if (low == -LIMIT && high == LIMIT) {
                ArrayNode others = patterns.addObject().putArray("anything-but");
                excluded.forEach(others::add);
            } else {
                addIntervals(patterns);
            }
            return patterns;
        }

        private void addTexts(ArrayNode patterns) {
            if (wanted.isEmpty()) {
                ArrayNode others = patterns.addObject().putArray("anything-but");
                excludedTexts.forEach(others::add);
            } else if (wanted.size() == 1 && !excludedTexts.contains(wanted.first())) {
                patterns.add(wanted.first());
            }
        }

        private void addIntervals(ArrayNode patterns) {
            long from = low;
            for (long hole : excluded.subSet(Math.min(low, high), true, Math.max(low, high), true)) {
                addInterval(patterns, from, hole - 1);
                from = hole + 1;
            }
            addInterval(patterns, from, high);
        }

        private static void addInterval(ArrayNode patterns, long from, long to) {
            if (from == to) {
                patterns.add(from);
            } else if (from < to) {
                ArrayNode bounds = patterns.addObject().putArray("numeric");
                if (from > -LIMIT) {
                    bounds.add(">=").add(from);
                }
                if (to < LIMIT) {
                    bounds.add("<=").add(to);
                }
            }
        }
    }
}
