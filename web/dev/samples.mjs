// Answers of the server that only pretends.
const fence = "```";

const code = `Here is a small program that counts words.

${fence}rust
use std::collections::HashMap;

/// Counts how often each word occurs.
fn count(text: &str) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    for word in text.split_whitespace() {
        *counts.entry(word).or_insert(0) += 1;
    }
    counts
}

fn main() {
    println!("{:?}", count("to be or not to be")); // {"to": 2, "be": 2, "or": 1, "not": 1}
}
${fence}

Run it with \`cargo run\`. The map's order is not fixed.`;

const markdown = `# A short tour

Text with **weight**, *stress*, \`code\`, ~~regret~~ and [a link](https://example.org/page). A generic type like Vec<T> stays text,
and so does <script>alert("no")</script>.

## Lists

1. First, install it:
   ${fence}bash
   cargo install --path crates/cli   # a long comment that reaches far beyond the width of a telephone's screen
   ${fence}
2. Then ask.
   - quietly
   - or not
- [x] a task that is done
- [ ] one that is not

> A remark that is quoted.
>
> It has two paragraphs.

| part | share | note |
| :--- | ---: | :---: |
| weights | 92 % | mapped |
| cache | 7 % | in blocks of fixed size, shared between conversations |
| rest | 1 % | |

![a picture](https://example.org/picture.png)

---

${code}`;

const paragraph =
  "The quick brown fox jumps over the lazy dog, and thinks nothing of it; the dog, for its part, has seen faster foxes, and " +
  "says so to anybody who asks, which few do. ";

export const samples = {
  short: "A hash map keeps pairs of keys and values, and finds a value by its key in about the same time however many there are.",
  thinking: "The reader asks something simple. I should answer in one or two sentences, without a list. First the idea, then the cost.",
  code,
  markdown,
  long: Array.from({ length: 60 }, (_, n) => `## Part ${n + 1}\n\n${paragraph.repeat(4)}\n\n- one\n- two\n- three`).join("\n\n"),
};
