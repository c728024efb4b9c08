//! Real wire formats through a real worker: a provider on a loopback socket answers as each of them does, and as badly as it can.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use baton_core::config::{Config, Model, Provider, ProviderKind};
use baton_core::fault::Faults;
use baton_devmodel::{Answer, Fault, ModelDouble, Play, Turn};
use futures::future;
use rust_decimal::Decimal;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::events_wire::Wire;
use crate::support::{Follower, Frame, Http, Process, RealApp, TestApp, agents_folder, bodies_of, calls_of, eventually};

/// The agent of each, its policy and its provider have one name.
const FORMATS: [(&str, ProviderKind); 3] =
    [("chat", ProviderKind::OpenaiChat), ("responses", ProviderKind::OpenaiResponses), ("messages", ProviderKind::Anthropic)];

const SUM: &str = r#"{"expression":"12 * 9"}"#;

/// A dollar for a million tokens of input, two for a million of output.
fn ask(double: &ModelDouble) -> impl Fn(&mut Config) {
    let base_url = double.url();
    move |config| {
        config.agents.folder = Some(agents_folder().join("remote"));
        for (name, kind) in FORMATS {
            config.providers.0.insert(name.into(), provider(kind, &base_url));
            config.models.insert(name.into(), policy(name));
        }
    }
}

fn provider(kind: ProviderKind, base_url: &str) -> Provider {
    Provider { kind, base_url: base_url.into(), api_key_env: None, private_endpoint: true, done_is_end: false }
}

fn policy(provider: &str) -> Model {
    let settings = json!({"provider": provider, "model": "small", "prices": {"input": "1", "output": "2"}});
    serde_json::from_value(settings).unwrap()
}

/// What the double wants back, as it gave it.
const SEALED: &str = "c2VhbGVk";

/// Calculates first, and says what came of it.
fn calculate(double: &ModelDouble) {
    double.answer_with(|request| {
        let turn = if request.body.to_string().contains("108") {
            Turn { reasoning: "It is done.".into(), ..Turn::text("The result is 108.") }
        } else {
            Turn { reasoning: "A sum.".into(), ..Turn::call("call_a", "math_calculate", SUM) }
        };
        Answer::turn(request.format(), &turn, None)
    });
}

#[tokio::test]
async fn a_model_of_each_format_answers_and_calls_tools() {
    let double = ModelDouble::start().await.unwrap();
    calculate(&double);
    let app = TestApp::start_with(ask(&double)).await;
    for (name, _) in FORMATS {
        let run_id = app.http.start_run_of(name, "How much is 12 times 9?").await;
        app.work().await;
        let run = app.http.run(run_id).await;
        assert_eq!(run["status"], "COMPLETED", "{name}: {run}");
        assert_eq!(calls_of(&app.pool, run_id).await, ["math.calculate COMPLETED"], "{name}");
        let said = bodies_of(&app.pool, run_id, "assistant.message.completed").await;
        assert_eq!(said[0]["content"][0]["text"], "The result is 108.", "{name}");
        // Two calls of 20 tokens in and 7 out, as the provider has counted them.
        assert_eq!((&run["usage"]["input_tokens"], &run["usage"]["cost_usd"]), (&json!(40), &json!("0.000068")), "{name}");
        let stored: String = sqlx::query_scalar("SELECT string_agg(body, '') FROM events WHERE run_id = $1")
            .bind(run_id)
            .fetch_one(&app.pool)
            .await
            .unwrap();
        assert!(!stored.contains("It is done."), "reasoning is never stored");
    }
    app.finish().await;
}

/// The provider stops in the middle of its answer: what it has said until then is there to be read.
#[tokio::test]
async fn what_a_model_of_each_format_says_is_shown_while_it_says_it() {
    let double = ModelDouble::start().await.unwrap();
    double.answer_with(|request| {
        let events = request.format().events(&Turn { reasoning: "A sum.".into(), ..Turn::text("First, and at last") });
        let rest = events.find("at last").unwrap();
        Answer::events(&events[..rest]).then(Play::Hang)
    });
    let app = TestApp::start_with(ask(&double)).await;
    for (name, _) in FORMATS {
        let run_id = app.http.start_run_of(name, "Say it").await;
        let mut wire = Wire::open(&app.http, run_id, None).await;
        wire.until_heartbeats(1).await; // it follows
        let worker = app.worker.clone();
        let execution = tokio::spawn(async move { worker.tick().await.unwrap() });
        wire.until("what was said", |frames| {
            live(frames, "message.delta") == "First, an" && live(frames, "reasoning.delta") == "A sum."
        })
        .await;
        assert_eq!(double.open(), 1, "{name}: nobody has given it up");
        app.http.cancel(run_id).await;
        app.worker.renew().await.unwrap();
        execution.await.unwrap();
        assert_eq!(app.http.run(run_id).await["status"], "CANCELLED", "{name}");
        eventually("the connection is closed", || async { (double.open() == 0).then_some(()) }).await;
    }
    app.finish().await;
}

/// What has been shown, of the text or the reasoning, without being stored.
fn live(frames: &[Frame], kind: &str) -> String {
    let shown = frames.iter().filter(|frame| frame.id.is_none() && frame.event() == kind);
    shown.map(|frame| frame.data.as_ref().unwrap()["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn gate_d3_case_f5_case_f7_malformed_arguments_become_an_error_result_and_the_run_goes_on() {
    let double = ModelDouble::start().await.unwrap();
    let app = TestApp::start_with(ask(&double)).await;
    // No JSON, and JSON that was cut off where the server says that it was not.
    let malformed = [r#"{"expression": listt"}"#, r#"{"expression": "1 + "#];
    for ((name, _), arguments) in FORMATS.into_iter().flat_map(|format| malformed.map(|arguments| (format, arguments))) {
        double.answer_with(move |request| {
            let turn = if request.body.to_string().contains("invalid_arguments") {
                Turn::text("I have learnt.")
            } else {
                Turn::call("call_a", "math_calculate", arguments)
            };
            Answer::turn(request.format(), &turn, None)
        });
        let run_id = app.http.start_run_of(name, "Calculate badly").await;
        app.work().await;
        assert_eq!(app.http.run(run_id).await["status"], "COMPLETED", "{name}");
        let failed = bodies_of(&app.pool, run_id, "tool.call.failed").await;
        assert_eq!(failed[0]["reason_code"], "invalid_arguments", "{name}");
        assert!(bodies_of(&app.pool, run_id, "tool.call.started").await.is_empty(), "{name}: it is not made");
        let proposed = bodies_of(&app.pool, run_id, "model.response.completed").await;
        assert_eq!(proposed[0]["tool_calls"][0]["arguments_raw"], arguments, "the raw text is kept");
        // Servers parse what they are shown of it again, and would refuse the whole conversation.
        let shown = double.requests().pop().unwrap().body.to_string();
        assert!(!shown.contains("listt") && !shown.contains("1 + "), "{name}: {shown}");
    }
    app.finish().await;
}

/// The run waits for its user, and another worker goes on: it has nothing but what is stored.
#[tokio::test]
async fn gate_d5_what_a_provider_wants_back_reaches_it_from_another_worker_and_goes_with_the_run() {
    let double = ModelDouble::start().await.unwrap();
    double.answer_with(|request| {
        let turn = if request.body.to_string().contains("blue") {
            Turn::text("Blue it is.")
        } else {
            Turn {
                reasoning: "I do not know.".into(),
                ..Turn::call("call_a", "conversation_ask_user", r#"{"question":"Which?"}"#)
            }
        };
        Answer::turn(request.format(), &turn, None)
    });
    let app = TestApp::start_with(ask(&double)).await;
    for name in ["responses", "messages"] {
        let run_id = app.http.start_run_of(name, "Choose a colour").await;
        app.work().await;
        assert_eq!(app.http.run(run_id).await["status"], "WAITING_FOR_USER", "{name}");
        app.http.input(run_id, "blue").await;
        app.work().await;
        assert_eq!(app.http.run(run_id).await["status"], "COMPLETED", "{name}");
        let asked = double.requests();
        let [first, second] = &asked[asked.len() - 2..] else { panic!("two requests") };
        assert!(!first.body.to_string().contains(SEALED), "{name}");
        assert!(second.body.to_string().contains(SEALED), "{name}: {}", second.body);
        let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM provider_continuations").fetch_one(&app.pool).await.unwrap();
        assert_eq!(kept, 0, "{name}");
    }
    app.finish().await;
}

/// The next worker's policies lead elsewhere, all but one, which nobody has named: there the run goes on.
#[tokio::test]
async fn gate_d5_a_lost_workers_run_goes_on_at_its_provider_with_what_that_wants_back() {
    let (double, other) = (ModelDouble::start().await.unwrap(), ModelDouble::start().await.unwrap());
    calculate(&double);
    let app = TestApp::start_with(ask(&double)).await;
    for (name, kind) in FORMATS {
        let run_id = app.http.start_run_of(name, "How much is 12 times 9?").await;
        app.lose_worker_at_answer(run_id, 2).await;
        let changed = |config: &mut Config| {
            config.providers.0.insert("other".into(), provider(kind, &other.url()));
            config.models.insert(name.into(), policy("other"));
            config.models.insert("before".into(), policy(name));
        };
        app.another_worker_with(Faults::default(), &[], changed).await.tick().await.unwrap();
        let run = app.http.run(run_id).await;
        assert_eq!(run["status"], "COMPLETED", "{name}: {run}");
        assert_eq!(calls_of(&app.pool, run_id).await, ["math.calculate COMPLETED"], "{name}: made once");
        let asked = double.requests();
        let [first, lost, again] = &asked[asked.len() - 3..] else { panic!("three requests") };
        assert_eq!(lost.body, again.body, "{name}: from what is stored alone");
        let seals = [first, again].map(|request| request.body.to_string().contains(SEALED));
        assert_eq!(seals, [false, kind != ProviderKind::OpenaiChat], "{name}");
    }
    assert!(other.requests().is_empty(), "a run is pinned to its provider");
    app.finish().await;
}

#[tokio::test]
async fn gate_c3_what_a_provider_wants_back_is_held_for() {
    const THOUGHTS: usize = 30_000;
    let double = ModelDouble::start().await.unwrap();
    double.answer_with(|request| {
        let turn = if request.body.to_string().contains("tool_result") {
            Turn::text("Done.")
        } else {
            Turn { reasoning: "x".repeat(THOUGHTS), ..Turn::call("call_a", "math_calculate", r#"{"expression":"1"}"#) }
        };
        Answer::turn(request.format(), &turn, None)
    });
    let app = TestApp::start_with(ask(&double)).await;
    let run_id = app.http.start_run_of("messages", "Think").await;
    app.work().await;
    assert_eq!(app.http.run(run_id).await["status"], "COMPLETED");
    let started = bodies_of(&app.pool, run_id, "model.request.started").await;
    let held: Vec<i64> = started.iter().map(|started| started["held"]["input_tokens"].as_i64().unwrap()).collect();
    assert!(held[1] - held[0] >= THOUGHTS as i64 / 3, "{held:?}");
    app.finish().await;
}

#[tokio::test]
async fn gate_c3_what_was_never_sent_costs_nothing() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let double = ModelDouble::start().await.unwrap();
    let app = TestApp::start_with(|config| {
        ask(&double)(config);
        config.providers.0.insert("chat".into(), provider(ProviderKind::OpenaiChat, &format!("http://{nobody}")));
    })
    .await;
    let run_id = app.http.start_run_of("chat", "Is anybody there?").await;
    app.work().await;
    let run = app.http.run(run_id).await;
    assert_eq!(run["failure"]["reason"], "model_permanent_error", "{run}");
    let calls: Vec<(i64, i64)> =
        sqlx::query_as("SELECT input_tokens, output_tokens FROM model_calls").fetch_all(&app.pool).await.unwrap();
    assert_eq!(calls, [(0, 0); 4]);
    assert_eq!((&run["usage"]["input_tokens"], &run["usage"]["cost_usd"]), (&json!(0), &json!("0")));
    app.finish().await;
}

#[tokio::test]
async fn gate_c3_an_estimate_takes_the_place_of_a_count_of_nothing_and_stays_within_the_hold() {
    const MOST: i64 = 4_096;
    let double = ModelDouble::start().await.unwrap();
    let chat = |text: &str| format!("data: {}\n\n", json!({"choices": [{"delta": {"content": text}}]}));
    double.push(Answer::events(chat(&"word ".repeat(20_000))).then(Play::Reset));
    let stop = r#"data: {"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    let nothing = r#"data: {"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}"#;
    double.push(Answer::events(format!("{}{stop}\n\n{nothing}\n\n", chat("Done."))));
    let app = TestApp::start_with(ask(&double)).await;
    let run_id = app.http.start_run_of("chat", "Write").await;
    app.work().await;
    assert_eq!(app.http.run(run_id).await["status"], "COMPLETED");
    let calls: Vec<(String, bool, i64)> =
        sqlx::query_as("SELECT cost_source, input_tokens > 0, output_tokens FROM model_calls ORDER BY attempt")
            .fetch_all(&app.pool)
            .await
            .unwrap();
    assert_eq!(calls, [("estimated".into(), true, MOST), ("estimated".into(), true, 2)]);
    app.finish().await;
}

/// The same request would bring the same, and cost as much again.
#[tokio::test]
async fn case_f19_a_model_that_thinks_up_to_its_limit_is_not_asked_again() {
    let double = ModelDouble::start().await.unwrap();
    let app = TestApp::start_with(ask(&double)).await;
    let thought = r#"data: {"choices":[{"delta":{"reasoning_content":"Hm."},"finish_reason":"length"}]}"#;
    double.answer_with(move |_| Answer::events(format!("{thought}\n\n")));
    let run_id = app.http.start_run_of("chat", "Think").await;
    app.work().await;
    let run = app.http.run(run_id).await;
    assert_eq!(run["failure"]["reason"], "empty_model_turn", "{run}");
    assert!(run["failure"]["message"].as_str().unwrap().contains("limit of output"), "{run}");
    assert_eq!(double.requests().len(), 1);
    app.finish().await;
}

/// A worker that has what nobody may see: the key, and what its provider says of it.
#[tokio::test]
async fn gate_d4_no_key_header_or_body_of_a_provider_is_anywhere() {
    const KEY: &str = "planted-key-51c0";
    const SAID: &str = "planted-words-9d2e";
    let double = ModelDouble::start().await.unwrap();
    double.answer_with(|request| {
        let error = json!({"error": {"type": "server_error", "message": format!("{SAID}: {KEY}")}}).to_string();
        let answer = |status| {
            let headers = ["content-type: application/json", &format!("x-said: {SAID}"), &format!("x-request-id: {KEY}")];
            Answer::new(status, &headers, &error)
        };
        match request.body.to_string() {
            body if body.contains("refuse") => answer(403),
            body if body.contains("break") => answer(500),
            _ => Answer::events(format!("data: {error}\n\n")),
        }
    });
    let app = RealApp::start(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    let mut settings = format!("agents.folder = {:?}\n", agents_folder().join("remote"));
    for (name, kind) in FORMATS {
        settings += &format!(
            "[providers.{name}]\nkind = \"{kind}\"\nbase_url = \"{}\"\napi_key_env = \"PLANTED_KEY\"\nprivate_endpoint = true\n\
             [models.{name}]\nprovider = \"{name}\"\nmodel = \"small\"\n",
            double.url()
        );
    }
    let (file, log) = (folder.path().join("baton.toml"), folder.path().join("log"));
    fs::write(&file, settings).unwrap();
    let variables = [("DATABASE_URL", app.url.as_str()), ("PLANTED_KEY", KEY), ("RUST_LOG", "trace")];
    let output = fs::File::create(&log).unwrap();
    let file = file.to_str().unwrap();
    let _api =
        Process::agentctl_into(output.try_clone().unwrap(), &["--config", file, "api", "--listen", "127.0.0.1:0"], &variables);
    let _worker = Process::agentctl_into(output, &["--config", file, "worker"], &variables);
    let mut runs = Vec::new();
    for (name, _) in FORMATS {
        eventually("the agent is there", || async {
            let query = sqlx::query_scalar("SELECT count(*) FROM agent_versions WHERE agent_id = $1").bind(name);
            let count: i64 = query.fetch_one(&app.pool).await.unwrap();
            (count == 1).then_some(())
        })
        .await;
        for text in ["refuse", "break", "say"] {
            runs.push(start_run_of_stored_agent(&app, name, text).await);
        }
    }
    let mut everything = BTreeMap::new();
    for run_id in runs {
        let run = eventually("the run has ended", || async {
            let run = app.http.run(run_id).await;
            run["finished_at"].is_string().then_some(run)
        })
        .await;
        assert_eq!(run["status"], "FAILED", "{run}");
        let mut follower = Follower::new(&app.http, run_id);
        follower.follow_to_end().await;
        everything.insert(format!("answers of {run_id}"), format!("{run} {:?}", follower.frames));
    }
    everything.insert("log".into(), fs::read_to_string(&log).unwrap());
    assert!(double.requests().iter().all(|request| {
        let headers = ["authorization", "x-api-key"].map(|name| request.headers.get(name).and_then(|value| value.to_str().ok()));
        headers.into_iter().flatten().any(|value| value.ends_with(KEY))
    }));
    let tables: Vec<String> = sqlx::query_scalar("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'")
        .fetch_all(&app.pool)
        .await
        .unwrap();
    for table in tables {
        let query = sqlx::AssertSqlSafe(format!("SELECT coalesce(string_agg(t::text, '\n'), '') FROM {table} t"));
        everything.insert(table, sqlx::query_scalar(query).fetch_one(&app.pool).await.unwrap());
    }
    assert!(everything["log"].contains("a call of a model failed"), "the log was captured");
    let refused = everything["log"].lines().filter(|line| line.contains("a provider refused a request"));
    assert!(refused.clone().any(|line| line.contains("403")) && refused.clone().any(|line| line.contains("500")), "and why");
    for (place, text) in &everything {
        assert!(!text.contains(KEY) && !text.contains(SAID), "{place}");
    }
    app.finish().await;
}

/// `dev` with what a developer has in the environment: an agent that a real model answers for, without a line of configuration.
#[tokio::test]
async fn dev_finds_a_provider_and_offers_an_assistant() {
    let double = ModelDouble::start().await.unwrap();
    calculate(&double);
    let folder = tempfile::tempdir().unwrap();
    let (data, ready, log) = (folder.path().join("data"), folder.path().join("ready"), folder.path().join("log"));
    let arguments =
        ["--data-dir", data.to_str().unwrap(), "dev", "--listen", "127.0.0.1:0", "--ready-file", ready.to_str().unwrap()];
    let host = double.url();
    let without_others = [("OLLAMA_HOST", host.as_str()), ("OPENAI_API_KEY", ""), ("ANTHROPIC_API_KEY", "")];
    let dev = Process::agentctl_into(fs::File::create(&log).unwrap(), &arguments, &without_others);
    let ready: Value = eventually("dev is ready", || async { serde_json::from_slice(&fs::read(&ready).ok()?).ok() }).await;
    let http = Http::new(ready["url"].as_str().unwrap().to_owned());
    let run_id = http.start_run_of("assistant", "How much is 12 times 9?").await;
    let run = eventually("the run has ended", || async {
        let run = http.run(run_id).await;
        run["finished_at"].is_string().then_some(run)
    })
    .await;
    assert_eq!(run["status"], "COMPLETED", "{run}");
    assert_eq!(double.requests().len(), 2);
    assert_eq!(double.requests()[0].body["model"], "llama3.2");
    assert!(fs::read_to_string(&log).unwrap().contains("run --agent assistant"), "it says how to talk to it");
    drop(dev);
}

/// The API of the test does not offer the agent; the workers that execute it have stored it.
async fn start_run_of_stored_agent(app: &RealApp, agent_id: &str, text: &str) -> Uuid {
    let session_id = app.http.create_session("test").await;
    let change = "UPDATE sessions SET agent_id = $2, agent_version = '1' WHERE id = $1";
    sqlx::query(change).bind(session_id).bind(agent_id).execute(&app.pool).await.unwrap();
    app.http.submit(session_id, text).await
}

/// It is asked once: other models of it would be refused as well, and other providers know nothing of it.
#[tokio::test]
async fn case_f17_a_refused_credential_is_not_shown_again_for_a_while() {
    let (refusing, other) = (ModelDouble::start().await.unwrap(), ModelDouble::start().await.unwrap());
    refusing.answer_with(|_| Answer::new(401, &[], r#"{"error": {"code": "invalid_api_key"}}"#));
    calculate(&other);
    let app = TestApp::start_with(|config| {
        ask(&refusing)(config);
        config.models.insert("responses".into(), policy("chat"));
        config.providers.0.insert("messages".into(), provider(ProviderKind::Anthropic, &other.url()));
    })
    .await;
    for name in ["chat", "responses", "chat"] {
        let run_id = app.http.start_run_of(name, "How much is 12 times 9?").await;
        app.work().await;
        let run = app.http.run(run_id).await;
        assert_eq!(run["failure"]["reason"], "model_permanent_error", "{name}: {run}");
        let class: Option<String> =
            sqlx::query_scalar("SELECT failure_class FROM runs WHERE id = $1").bind(run_id).fetch_one(&app.pool).await.unwrap();
        assert_eq!(class.as_deref(), Some("credential_refused"), "{name}");
    }
    assert_eq!(refusing.requests().len(), 1);
    let calls: i64 = sqlx::query_scalar("SELECT count(*) FROM model_calls").fetch_one(&app.pool).await.unwrap();
    assert_eq!(calls, 1, "what was not asked is not charged");
    let run_id = app.http.start_run_of("messages", "How much is 12 times 9?").await;
    app.work().await;
    assert_eq!(app.http.run(run_id).await["status"], "COMPLETED");
    app.finish().await;
}

/// What a provider does wrong it does wrong in every fifth call, in every way, to two hundred runs at once.
#[tokio::test]
async fn two_hundred_runs_end_as_the_rules_say_and_cost_what_was_counted() {
    const RUNS: usize = 200;
    const FAULT_EVERY: usize = 5;
    let double = ModelDouble::start().await.unwrap();
    let (calls, counted) = (AtomicUsize::new(0), Arc::new(AtomicI64::new(0)));
    let counts = Arc::clone(&counted);
    double.answer_with(move |request| {
        let call = calls.fetch_add(1, Ordering::Relaxed);
        let kinds = [Fault::Status(403), Fault::Status(404)].into_iter().chain(Fault::PROMPT).collect::<Vec<_>>();
        let fault = call.is_multiple_of(FAULT_EVERY).then(|| kinds[call / FAULT_EVERY % kinds.len()]);
        // An answer that comes to its end says what it has used.
        let is_whole = fault.is_none_or(|fault| matches!(fault, Fault::Drip | Fault::Empty));
        counts.fetch_add(i64::from(is_whole), Ordering::Relaxed);
        Answer::turn(request.format(), &Turn::text("It is well."), fault)
    });
    let app = TestApp::start_with(|config| {
        ask(&double)(config);
        config.worker.slots.interactive = 200;
    })
    .await;
    let started = (0..RUNS).map(|number| app.http.start_run_of(FORMATS[number % FORMATS.len()].0, "How are things?"));
    let runs: Vec<Uuid> = future::join_all(started).await;
    app.work().await;
    let mut ended: BTreeMap<String, usize> = BTreeMap::new();
    let mut cost = Decimal::ZERO;
    for run_id in runs {
        let run = app.http.run(run_id).await;
        let end = run["failure"]["reason"].as_str().or(run["status"].as_str()).unwrap().to_owned();
        if end == "COMPLETED" {
            let said = bodies_of(&app.pool, run_id, "assistant.message.completed").await;
            assert_eq!(said[0]["content"][0]["text"], "It is well.", "{run}");
        }
        *ended.entry(end).or_default() += 1;
        cost += decimal(&run["usage"]["cost_usd"]);
    }
    println!("{ended:?} for {cost} USD");
    // Only refusals of the request end a run, but for the few that met four faults in a row.
    let known = ["COMPLETED", "model_permanent_error", "model_protocol_error", "empty_model_turn"];
    assert!(ended.keys().all(|end| known.contains(&end.as_str())), "{ended:?}");
    assert!(ended["COMPLETED"] >= RUNS * 9 / 10 && ended["model_permanent_error"] > 0, "{ended:?}");
    let rows: Vec<(String, i64, i64, Decimal)> =
        sqlx::query_as("SELECT cost_source, input_tokens, output_tokens, cost_usd FROM model_calls")
            .fetch_all(&app.pool)
            .await
            .unwrap();
    assert_eq!(rows.len(), double.requests().len(), "each call is on record");
    assert_eq!(rows.iter().map(|(.., cost)| *cost).sum::<Decimal>(), cost, "runs cost what their calls cost");
    let reported: Decimal = rows.iter().filter(|(source, ..)| source == "reported").map(|(.., cost)| *cost).sum();
    assert_eq!(reported, Decimal::new(counted.load(Ordering::Relaxed) * (20 + 2 * 7), 6), "what the provider has counted");
    for (source, input, output, cost) in &rows {
        assert_eq!(*cost, Decimal::new(input + 2 * output, 6), "{source}");
        assert!(source == "estimated" || (source == "reported" && (*input, *output) == (20, 7)), "{source}: {input}, {output}");
    }
    app.finish().await;
}

fn decimal(value: &Value) -> Decimal {
    value.as_str().unwrap().parse().unwrap()
}
