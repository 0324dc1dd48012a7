//! Messages of an extension to the model: `custom_message` entries, checked before anything is written `[F4, C3]`.
//!
//! What a reader would pass over `[L8a]`, cut or leave out `[W8]` is refused here. Images become blobs on the way to the disk
//! and are images again for whoever reads the session `[W8, W9]`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use session_core::{BlobHash, CustomMessageEntry, EntryId, Json, JsonKind, JsonText, quote};

use crate::error::{Error, ErrorKind, Result};
use crate::extension::CustomType;
use crate::value::{self, Numbers};
use crate::writer::SessionWriter;

/// What a message says: text, or blocks of text and images.
#[derive(Clone, Debug)]
pub struct Content(Inner);

#[derive(Clone, Debug)]
enum Inner {
    Text(String),
    Blocks(Vec<Block>),
    Json(JsonText),
}

#[derive(Clone, Debug)]
enum Block {
    Text(String),
    Image { data: String, mime_type: String },
}

impl Content {
    /// No blocks yet; add them with [`text`](Self::text) and [`image`](Self::image).
    pub fn blocks() -> Self {
        Self(Inner::Blocks(Vec::new()))
    }

    /// Content as it will stand in the file: a text, or an array of `{"type":"text","text"}` and
    /// `{"type":"image","data","mimeType"}` blocks. Checked when it is appended; further keys of a block stay.
    pub fn from_json(json: JsonText) -> Self {
        Self(Inner::Json(json))
    }

    /// The same with a text block behind it.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.with(Block::Text(text.into()))
    }

    /// The same with an image behind it.
    #[must_use]
    pub fn image(self, bytes: &[u8], mime_type: &str) -> Self {
        self.with(Block::Image { data: STANDARD.encode(bytes), mime_type: mime_type.to_owned() })
    }

    fn with(self, block: Block) -> Self {
        let mut blocks = match self.0 {
            Inner::Blocks(blocks) => blocks,
            Inner::Text(text) => vec![Block::Text(text)],
            Inner::Json(json) => match json.view().kind() {
                JsonKind::Array => {
                    // Joined as text: the blocks that are there stay as they are spelled.
                    let items = json.view().items().map(|item| String::from_utf8_lossy(item.raw()).into_owned());
                    let items: Vec<String> = items.chain([block.json()]).collect();
                    return Self(Inner::Json(valid(&format!("[{}]", items.join(",")))));
                }
                // What is no content stays so, and is refused when it is appended.
                JsonKind::Text => vec![Block::Text(json.view().text().unwrap_or_default().into_owned())],
                _ => return Self(Inner::Json(json)),
            },
        };
        blocks.push(block);
        Self(Inner::Blocks(blocks))
    }

    fn into_json(self) -> JsonText {
        match self.0 {
            Inner::Text(text) => JsonText::from_text(&text),
            Inner::Json(json) => json,
            Inner::Blocks(blocks) => {
                let blocks: Vec<String> = blocks.iter().map(Block::json).collect();
                valid(&format!("[{}]", blocks.join(",")))
            }
        }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self(Inner::Text(text.to_owned()))
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self(Inner::Text(text))
    }
}

impl Block {
    fn json(&self) -> String {
        match self {
            Self::Text(text) => format!(r#"{{"type":"text","text":{}}}"#, quote(text)),
            Self::Image { data, mime_type } => {
                format!(r#"{{"type":"image","data":{},"mimeType":{}}}"#, quote(data), quote(mime_type))
            }
        }
    }
}

/// JSON that was put together from JSON.
fn valid(json: &str) -> JsonText {
    JsonText::parse(json).unwrap_or_else(|error| unreachable!("{error}"))
}

/// Who is behind a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attribution {
    /// The user.
    User,
    /// The agent.
    Agent,
}

/// A message that is not written yet.
///
/// ```
/// use plugin_sdk::{Attribution, Content, Extension, testing::FakeSession};
/// let weather = Extension::new("weather")?;
/// let mut session = FakeSession::new();
/// weather.message("It rains.").hidden().attribution(Attribution::Agent).append(&mut session)?;
/// weather.message(Content::blocks().text("The radar:").image(b"\x89PNG", "image/png")).append(&mut session)?;
/// assert_eq!(session.model_sees().len(), 2);
/// # Ok::<(), plugin_sdk::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a draft is written by `append`"]
pub struct MessageDraft {
    custom_type: CustomType,
    content: Content,
    display: bool,
    details: Option<JsonText>,
    attribution: Option<Attribution>,
}

impl MessageDraft {
    pub(crate) fn new(custom_type: CustomType, content: Content) -> Self {
        Self { custom_type, content, display: true, details: None, attribution: None }
    }

    /// The model gets it, and no person sees it.
    pub fn hidden(mut self) -> Self {
        self.display = false;
        self
    }

    /// Anything that the extension wants to keep with it; the model does not get it.
    ///
    /// # Errors
    /// As [`State::save`](crate::State::save): [`ErrorKind::NotRepresentable`], [`ErrorKind::TooLarge`].
    pub fn details<T: Serialize + ?Sized>(mut self, details: &T) -> Result<Self> {
        self.details = Some(value::to_json(details, Numbers::Json)?);
        Ok(self)
    }

    /// Who is behind it.
    pub fn attribution(mut self, attribution: Attribution) -> Self {
        self.attribution = Some(attribution);
        self
    }

    /// Appends it below the leaf. What survives a crash: as [`State::save`](crate::State::save); images are on the medium
    /// before the line that names them `[W10]`.
    ///
    /// # Errors
    /// Nothing is written for [`ErrorKind::InvalidInput`] (no content, a block that is neither text nor image, an image that is
    /// no image) and [`ErrorKind::TooLarge`] (a text that would be cut). [`ErrorKind::Session`] as every append.
    pub fn append<S: SessionWriter + ?Sized>(self, session: &mut S) -> Result<EntryId> {
        let content = self.content.into_json();
        check_content(content.view())?;
        session.append_custom_message(&CustomMessageEntry {
            custom_type: self.custom_type.as_str().to_owned(),
            content,
            display: self.display,
            details: self.details,
            attribution: self.attribution.map(|who| match who {
                Attribution::User => "user".to_owned(),
                Attribution::Agent => "agent".to_owned(),
            }),
        })
    }
}

fn check_content(content: Json<'_>) -> Result<()> {
    match content.kind() {
        JsonKind::Text if content.raw() == b"\"\"" => Err(invalid("a message without text says nothing")),
        JsonKind::Text => value::check(content, Numbers::Json),
        JsonKind::Array if content.items().next().is_none() => Err(invalid("a message without blocks says nothing")),
        JsonKind::Array => content.items().enumerate().try_for_each(|(n, block)| {
            check_block(block).map_err(|error| Error::new(error.kind(), format!("block {n}: {error}")))
        }),
        _ => Err(invalid("the content of a message is a text or an array of text and image blocks")),
    }
}

fn check_block(block: Json<'_>) -> Result<()> {
    let text = |key: &str| block.get(key).and_then(Json::text);
    match text("type").as_deref() {
        Some("text") if text("text").is_some() => value::check(block, Numbers::Json),
        Some("text") => Err(invalid("a text block has a text `text`")),
        Some("image") => {
            let mime_type = text("mimeType").unwrap_or_default();
            if !mime_type
                .strip_prefix("image/")
                .is_some_and(|kind| !kind.is_empty() && kind.bytes().all(|b| b.is_ascii_graphic()))
            {
                return Err(invalid("an image has a `mimeType` such as `image/png`"));
            }
            let data = text("data").unwrap_or_default();
            // Any other spelling of base64 would stay inline, and be cut as a text when it is long.
            let is_image = !data.is_empty()
                && (BlobHash::parse_reference(&data).is_some() || STANDARD.decode(data.as_bytes()).is_ok());
            if !is_image {
                return Err(invalid("an image has `data` in padded base64, or a reference to a blob"));
            }
            let others = block.members().filter(|member| !member.is("data"));
            others.map(|member| member.value).try_for_each(|value| value::check(value, Numbers::Json))
        }
        _ => Err(invalid("a block is of the type `text` or `image`")),
    }
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}
