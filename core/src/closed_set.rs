//! A closed set of words: one list gives the type, its text in SQL and on the wire, and the way back.

/// Why a word does not belong to a closed set. Names the set and what it holds, never the word that was given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is one of {words}", plain(set))]
pub struct UnknownWord {
    /// The name of its type.
    pub set: &'static str,
    pub words: String,
}

/// A type's name as people say it: `ApprovalStatus` is "an approval status".
fn plain(name: &str) -> String {
    let article = if name.starts_with(['A', 'E', 'I', 'O']) { "an" } else { "a" };
    name.chars().fold(article.to_owned(), |mut words, letter| {
        if letter.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
        words
    })
}

macro_rules! closed_set {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, utoipa::ToSchema)]
        pub enum $name { $($(#[$variant_meta])* #[schema(rename = $text)] $variant,)* }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::closed_set::UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|known| known.as_str() == word).ok_or_else(|| $crate::closed_set::UnknownWord {
                    set: stringify!($name),
                    words: Self::ALL.iter().map(|known| known.as_str()).collect::<Vec<_>>().join(", "),
                })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                word.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use closed_set;

#[cfg(test)]
mod tests;
