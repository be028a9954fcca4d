package peers;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field.Store;
import org.apache.lucene.document.LongPoint;
import org.apache.lucene.document.StringField;
import org.apache.lucene.document.TextField;
import org.apache.lucene.index.Term;
import org.apache.lucene.monitor.Monitor;
import org.apache.lucene.monitor.MonitorQuery;
import org.apache.lucene.monitor.MultiMatchingQueries;
import org.apache.lucene.monitor.QueryMatch;
import org.apache.lucene.monitor.TermFilteredPresearcher;
import org.apache.lucene.monitor.TermWeightor;
import org.apache.lucene.queries.spans.SpanNearQuery;
import org.apache.lucene.queries.spans.SpanTermQuery;
import org.apache.lucene.search.BooleanClause.Occur;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.TermQuery;

/**
 * Lucene Monitor: one query per subscription, presearched by its terms.
 *
 * <p>A value is a term of its attribute's field, an integer a point of another field as well. That an attribute is
 * bound is a term too, for != to ask for; it is weighted down, since most events have it. Attributes whose words are
 * asked for are fields of words; such events are matched by the hundred as well, by the Monitor's own batches.
 */
final class LuceneMonitor extends Harness<Document> {
    private static final String BOUND = "bound";
    private static final int REGISTERED_AT_ONCE = 10_000;

    private final Monitor monitor = newMonitor();
    private final Set<String> ofWords = new HashSet<>();

    public static void main(String[] arguments) throws Exception {
        LuceneMonitor peer = new LuceneMonitor();
        peer.run(arguments);
        peer.monitor.close();
    }

    private static Monitor newMonitor() {
        TermWeightor weightor = TermWeightor.combine(
                TermFilteredPresearcher.DEFAULT_WEIGHTOR, TermWeightor.fieldWeightor(0.01, BOUND));
        try {
            return new Monitor(
                    new StandardAnalyzer(), new TermFilteredPresearcher(weightor, List.of(), Set.of()));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override
    void build(List<Subscription> subscriptions) throws Exception {
        List<MonitorQuery> waiting = new ArrayList<>();
        for (Subscription each : subscriptions) {
            for (Predicate predicate : each.predicates()) {
                if (predicate.operator().startsWith("contains")) {
                    ofWords.add(predicate.attribute());
                }
            }
            waiting.add(new MonitorQuery(Long.toString(each.id()), query(each)));
            if (waiting.size() == REGISTERED_AT_ONCE) {
                monitor.register(waiting);
                waiting.clear();
            }
        }
        monitor.register(waiting);
    }

    @Override
    Document prepare(JsonNode event) {
        Document document = new Document();
        for (var field : event.properties()) {
            String attribute = field.getKey();
            JsonNode value = field.getValue();
            if (ofWords.contains(attribute)) {
                document.add(new TextField(attribute, value.asText(), Store.NO));
                continue;
            }
            document.add(new StringField(BOUND, attribute, Store.NO));
            document.add(new StringField(attribute, value.asText(), Store.NO));
            if (value.isNumber()) {
                document.add(new LongPoint(points(attribute), value.asLong()));
            }
        }
        return document;
    }

    @Override
    List<Long> match(Document event) throws Exception {
        List<Long> ids = new ArrayList<>();
        for (QueryMatch each : monitor.match(event, QueryMatch.SIMPLE_MATCHER).getMatches()) {
            ids.add(Long.parseLong(each.getQueryId()));
        }
        return ids;
    }

    @Override
    boolean knowsWords() {
        return true;
    }

    @Override
    long countAtOnce(List<Document> events) throws Exception {
        if (ofWords.isEmpty()) {
            return -1;
        }
        MultiMatchingQueries<QueryMatch> found =
                monitor.match(events.toArray(new Document[0]), QueryMatch.SIMPLE_MATCHER);
        long total = 0;
        for (int at = 0; at < events.size(); at++) {
            total += found.getMatchCount(at);
        }
        return total;
    }

    private static Query query(Subscription subscription) {
        BooleanQuery.Builder all = new BooleanQuery.Builder();
        for (Predicate each : subscription.predicates()) {
            String attribute = each.attribute();
            if (each.operator().equals("!=")) {
                all.add(new TermQuery(new Term(BOUND, attribute)), Occur.FILTER);
                all.add(new TermQuery(new Term(attribute, each.operand().asText())), Occur.MUST_NOT);
            } else {
                all.add(satisfied(each), Occur.FILTER);
            }
        }
        return all.build();
    }

    private static Query satisfied(Predicate predicate) {
        String attribute = predicate.attribute();
        if (predicate.operator().startsWith("contains")) {
            return words(attribute, predicate.operator(), predicate.operand());
        }
        if (predicate.operator().equals("=")) {
            return new TermQuery(new Term(attribute, predicate.operand().asText()));
        }
        long value = predicate.operand().asLong();
        return switch (predicate.operator()) {
            case "<" -> LongPoint.newRangeQuery(points(attribute), Long.MIN_VALUE, value - 1);
            case "<=" -> LongPoint.newRangeQuery(points(attribute), Long.MIN_VALUE, value);
            case ">" -> LongPoint.newRangeQuery(points(attribute), value + 1, Long.MAX_VALUE);
            default -> LongPoint.newRangeQuery(points(attribute), value, Long.MAX_VALUE);
        };
    }

    /** Words of a text: all of them, any, in order and near, or some and not others. */
    private static Query words(String attribute, String operator, JsonNode operand) {
        BooleanQuery.Builder found = new BooleanQuery.Builder();
        if (operator.equals("contains") && operand.isTextual()) {
            return word(attribute, operand);
        }
        if (operator.equals("contains")) {
            JsonNode pattern = operand.get("words");
            if (pattern.has("near")) {
                JsonNode chain = pattern.get("near");
                if (chain.size() != 3 || chain.get(1).get(0).asInt() != 0) {
                    throw new Skipped("only two words are asked to be near, with any number of words between: " + chain);
                }
                return SpanNearQuery.newOrderedNearQuery(attribute)
                        .addClause(new SpanTermQuery(term(attribute, chain.get(0))))
                        .addClause(new SpanTermQuery(term(attribute, chain.get(2))))
                        .setSlop(chain.get(1).get(1).asInt())
                        .build();
            }
            for (JsonNode part : pattern.get("and")) {
                found.add(word(attribute, part.has("not") ? part.get("not") : part),
                        part.has("not") ? Occur.MUST_NOT : Occur.FILTER);
            }
            return found.build();
        }
        for (JsonNode part : operand) {
            found.add(word(attribute, part), operator.equals("contains any") ? Occur.SHOULD : Occur.FILTER);
        }
        return found.build();
    }

    private static Query word(String attribute, JsonNode word) {
        return new TermQuery(term(attribute, word));
    }

    private static Term term(String attribute, JsonNode word) {
        String text = word.asText();
        if (!text.chars().allMatch(Character::isLetterOrDigit)) {
            throw new Skipped("words are asked for one by one, and not " + text);
        }
        return new Term(attribute, text.toLowerCase(Locale.ROOT));
    }

    /** The field of an attribute's points; attributes are plain names, so that no other field is called so. */
    private static String points(String attribute) {
        return attribute + "#";
    }
}
