//! The search for sentences in `.proto` comments that begin like a question and are none, such as "How it is.". Pure.

/// The first words of the sentences that are searched.
const QUESTION_WORDS: [&str; 6] = ["What", "Which", "Who", "Whose", "How", "Where"];

/// The sentences that begin with a question word and end with a full stop, with the line of their comment.
pub(super) fn pseudo_questions(text: &str) -> Vec<(usize, String)> {
    let is_searched = |sentence: &&str| {
        let first = sentence.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        QUESTION_WORDS.contains(&first) && sentence.ends_with('.')
    };
    let of_comment = |(line, comment): (usize, String)| -> Vec<(usize, String)> {
        sentences(&comment)
            .into_iter()
            .filter(is_searched)
            .map(|sentence| (line, sentence.to_owned()))
            .collect()
    };
    comments(text).into_iter().flat_map(of_comment).collect()
}

/// The comments, each as one line, with the number of its first line. Adjacent lines of comments are one comment.
fn comments(text: &str) -> Vec<(usize, String)> {
    let mut comments: Vec<(usize, String)> = Vec::new();
    let mut is_continued = false;
    for (line, source) in (1..).zip(text.lines()) {
        let Some((code, comment)) = source.split_once("//") else {
            is_continued = false;
            continue;
        };
        let (stands_alone, comment) = (code.trim().is_empty(), comment.trim_start_matches('/').trim());
        match comments.last_mut() {
            Some((_, before)) if is_continued && stands_alone => {
                before.push(' ');
                before.push_str(comment);
            }
            _ => comments.push((line, comment.to_owned())),
        }
        is_continued = stands_alone;
    }
    comments
}

/// Splits after each mark that ends a sentence and is followed by a blank.
fn sentences(comment: &str) -> Vec<&str> {
    let mut rest = comment.trim();
    let mut sentences = Vec::new();
    while let Some(end) = [". ", "? ", ": "].iter().filter_map(|mark| rest.find(mark)).min() {
        sentences.push(&rest[..=end]);
        rest = rest[end + 1..].trim_start();
    }
    sentences.push(rest);
    sentences
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::comment("// How it is.\nstring a = 1;", &[(1, "How it is.")])]
    #[case::beside_code("string a = 1; // What it is for.", &[(1, "What it is for.")])]
    #[case::later_sentence("\n// Required. Which page\n// to list.", &[(2, "Which page to list.")])]
    #[case::after_a_colon("// Only read: whose it is. Who reads it.", &[(1, "Who reads it.")])]
    #[case::question("// Who reads it? The server.", &[])]
    #[case::noun("// The state of the node.", &[])]
    #[case::part_of_a_word("// However it is.", &[])]
    #[case::no_comment("string what = 1;", &[])]
    fn sentences_that_only_look_like_questions_are_found(
        #[case] text: &str,
        #[case] expected: &[(usize, &str)],
    ) {
        let found = pseudo_questions(text);
        let found: Vec<(usize, &str)> = found.iter().map(|(line, text)| (*line, text.as_str())).collect();
        assert_eq!(found, expected);
    }
}
