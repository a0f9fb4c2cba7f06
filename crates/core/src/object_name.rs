//! The names that Kubernetes allows for objects.

/// Returns true if an object of Kubernetes can have this name: a DNS subdomain of at most `longest` characters.
pub(crate) fn is_object_name(name: &str, longest: usize) -> bool {
    let is_end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let ends = bytes.first().zip(bytes.last());
        ends.is_some_and(|(first, last)| is_end(*first) && is_end(*last))
            && bytes.iter().all(|byte| is_end(*byte) || *byte == b'-')
    };
    name.len() <= longest && name.split('.').all(is_label)
}
