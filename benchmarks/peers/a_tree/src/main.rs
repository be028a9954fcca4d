//! a-tree on the two files of a comparison; benchmarks/peers/__init__.py has the protocol.
//!
//! Attributes are renamed (x0, x1 …), so that none is a word of a-tree's language. A text that holds a quote or a
//! backslash cannot be written in that language: then the files are skipped.

use a_tree::{ATree, AttributeDefinition, Event};
use serde_json::{json, Value};
use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::io::Write;
use std::time::Instant;

const REPEATS: usize = 3;

fn read(path: &str) -> Result<Vec<Value>, Box<dyn Error>> {
    let text = fs::read_to_string(path)?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    Ok(lines.map(serde_json::from_str).collect::<Result<_, _>>()?)
}

fn literal(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if text.contains(['"', '\'', '\\']) => None,
        Value::String(text) => Some(format!("\"{text}\"")),
        number => Some(number.to_string()),
    }
}

/// The attributes that subscriptions compare, with the names and types that the tree knows them by.
fn attributes(subscriptions: &[Value]) -> (HashMap<String, String>, Vec<AttributeDefinition>) {
    let (mut names, mut definitions) = (HashMap::new(), Vec::new());
    for predicate in subscriptions.iter().flat_map(|each| each["predicates"].as_array().unwrap()) {
        let attribute = predicate[0].as_str().unwrap();
        if !names.contains_key(attribute) {
            let name = format!("x{}", names.len());
            definitions.push(match &predicate[2] {
                Value::String(_) => AttributeDefinition::string(&name),
                _ => AttributeDefinition::integer(&name),
            });
            names.insert(attribute.to_string(), name);
        }
    }
    (names, definitions)
}

fn expression(subscription: &Value, names: &HashMap<String, String>) -> Option<String> {
    let predicates = subscription["predicates"].as_array().unwrap().iter();
    let parts: Option<Vec<String>> = predicates
        .map(|predicate| {
            let operator = match predicate[1].as_str().unwrap() {
                "!=" => "<>",
                other => other,
            };
            let name = &names[predicate[0].as_str().unwrap()];
            Some(format!("{name} {operator} {}", literal(&predicate[2])?))
        })
        .collect();
    Some(parts?.join(" and "))
}

/// An event as the tree wants it; what it does not bind stays undefined.
fn event(tree: &ATree<i64>, names: &HashMap<String, String>, raw: &Value) -> Result<Event, Box<dyn Error>> {
    let mut builder = tree.make_event();
    for (attribute, value) in raw.as_object().unwrap() {
        match (names.get(attribute), value) {
            (None, _) => {}
            (Some(name), Value::String(text)) => builder.with_string(name, text)?,
            (Some(name), number) => builder.with_integer(name, number.as_i64().unwrap())?,
        }
    }
    Ok(builder.build()?)
}

fn search(tree: &ATree<i64>, event: &Event) -> Vec<i64> {
    let report = tree.search(event).expect("a search");
    report.matches().iter().map(|id| **id).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (checked, budget): (usize, f64) = (arguments[2].parse()?, arguments[3].parse()?);
    let (subscriptions, raws) = (read(&arguments[0])?, read(&arguments[1])?);

    let started = Instant::now();
    let (names, definitions) = attributes(&subscriptions);
    let mut tree = ATree::<i64>::new(&definitions).map_err(|error| format!("{error:?}"))?;
    for subscription in &subscriptions {
        let Some(text) = expression(subscription, &names) else {
            println!("{}", json!({"skipped": "a-tree's language has no way to write a text with quotes or backslashes"}));
            return Ok(());
        };
        let id = subscription["id"].as_i64().unwrap();
        tree.insert(&id, &text).map_err(|error| format!("{text}: {error:?}"))?;
    }
    let build_s = started.elapsed().as_secs_f64();

    let mut events = raws.iter().map(|raw| event(&tree, &names, raw)).collect::<Result<Vec<_>, _>>()?;
    let mut answers = fs::File::create(&arguments[4])?;
    for event in events.iter().take(checked) {
        writeln!(answers, "{}", json!(search(&tree, event)))?;
    }

    let (mut seconds, mut matches) = (Vec::new(), 0);
    for repeat in 0..REPEATS {
        let (mut done, started) = (0, Instant::now());
        matches = 0;
        for event in &events {
            matches += search(&tree, event).len();
            done += 1;
            if repeat == 0 && started.elapsed().as_secs_f64() > budget {
                break;
            }
        }
        seconds.push(started.elapsed().as_secs_f64());
        events.truncate(done);
    }
    println!("{}", json!({"build_s": build_s, "events": events.len(), "matches": matches, "seconds": seconds}));
    Ok(())
}
