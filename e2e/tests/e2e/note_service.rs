//! The HTTP service behind the example plugin `notes`: a small HTTP/1.1 server on loopback that keeps notes in memory.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// One service; it answers for as long as the tests run.
pub(crate) struct NoteService {
    port: u16,
    notes: Notes,
}

type Notes = Arc<Mutex<BTreeMap<String, Value>>>;

impl NoteService {
    pub(crate) fn start() -> NoteService {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let notes = Notes::default();
        let shared = notes.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let notes = shared.clone();
                std::thread::spawn(move || serve(stream, &notes));
            }
        });
        NoteService { port, notes }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Changes the text of a note behind the back of everybody.
    pub(crate) fn change(&self, namespace: &str, name: &str, text: &str) {
        let mut notes = self.notes.lock().unwrap();
        let note = notes
            .get_mut(&format!("/notes/{namespace}/{name}"))
            .unwrap();
        note["text"] = text.into();
        note["revision"] = "changed behind".into();
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let notes = self.notes.lock().unwrap();
        notes
            .keys()
            .map(|path| path["/notes/".len()..].to_owned())
            .collect()
    }
}

fn serve(stream: TcpStream, notes: &Notes) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let mut words = line.split_whitespace().map(str::to_owned);
        let (Some(method), Some(path)) = (words.next(), words.next()) else {
            return;
        };
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            match line.trim_end().split_once(':') {
                Some((name, value)) => {
                    headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
                }
                None => break,
            }
        }
        let length = headers.get("content-length").and_then(|l| l.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let (status, answer) = answer(&method, &path, &headers, &body, notes);
        let answer = answer.to_string();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        if stream.write_all((head + &answer).as_bytes()).is_err() {
            return;
        }
    }
}

fn answer(
    method: &str,
    path: &str,
    headers: &BTreeMap<String, String>,
    body: &[u8],
    notes: &Notes,
) -> (u16, Value) {
    let mut notes = notes.lock().unwrap();
    if path == "/notes" {
        return (200, notes.values().cloned().collect());
    }
    let known = notes.get(path).cloned();
    let revision = known.as_ref().and_then(|note| note["revision"].as_str());
    let fails = match (headers.get("if-match"), headers.get("if-none-match")) {
        (Some(wanted), _) => revision != Some(wanted),
        (None, Some(_)) => known.is_some(),
        (None, None) => false,
    };
    match (method, known) {
        _ if fails => (412, Value::Null),
        ("PUT", known) => {
            let sent: Value = serde_json::from_slice(body).unwrap();
            let (namespace, name) = path["/notes/".len()..].split_once('/').unwrap();
            let count = known
                .as_ref()
                .map_or(0, |note| note["count"].as_u64().unwrap())
                + 1;
            let note = json!({
                "namespace": namespace, "name": name, "id": format!("note-{namespace}-{name}"),
                "created": "2026-01-02T03:04:05Z", "count": count, "revision": format!("r{count}"),
                "text": sent["text"], "topic": sent["topic"],
            });
            notes.insert(path.to_owned(), note.clone());
            (200, note)
        }
        ("DELETE", Some(_)) => {
            notes.remove(path);
            (204, Value::Null)
        }
        ("GET", Some(note)) => (200, note),
        _ => (404, Value::Null),
    }
}
