//! Text recognition (OCR): the lines of a page that is a picture, and their texts. The networks are those of PP-OCRv6
//! (small), run by ONNX Runtime.
//!
//! Sources: PP-OCR (Du et al. 2020, arXiv:2009.09941) and its later versions; the constants are those of the package
//! `rapidocr` 3.10, from which the files come. Differences: a page is looked at with at most a million pixels; instead of
//! the network for directions, the confidence of five lines decides which way up a page is; lines are read with 8-bit numbers
//! (see [`quantization`]) where the processor has instructions for them.

mod detection;
mod direction;
mod geometry;
mod picture;
mod picture_file;
mod quantization;
mod recognition;
mod runtime;

use super::onnx;
use crate::{Error, ModelDirectory, ModelKind, locked};
use detection::{Detector, TextBox};
use direction::SURE;
use geometry::{Point, Rectangle};
use ort::environment::Environment;
pub use picture::{Picture, PictureError};
pub use picture_file::PictureFile;
use recognition::{RecognizedText, Recognizer, groups};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The networks, as the catalogue calls them.
pub const MODEL: &str = "pp-ocrv6-small";
const DETECTION: &str = "detection.onnx";
const RECOGNITION: &str = "recognition.onnx";
/// A text with less confidence is left out: it is noise, a picture, or a line of a table.
const LEAST_CONFIDENCE: f32 = 0.5;

/// How the network that reads lines computes on this machine: with 8-bit numbers (`int8`) or not (`none`). What is read
/// depends on it a little, so it belongs in keys.
pub fn quantization() -> &'static str {
    if onnx::adds_bytes_exactly() { "int8" } else { "none" }
}

/// A line of text on a page that was put straight, so that most lines are level. Places are in pixels of the picture.
#[derive(Debug, Clone, PartialEq)]
pub struct RecognizedLine {
    /// Its text, with spaces between words. A cell of a table is mostly a line of its own.
    pub text: String,
    /// How sure the network is of it, from 0 to 1.
    pub confidence: f32,
    /// Its left side.
    pub left: f32,
    /// Its upper side.
    pub top: f32,
    /// Its right side.
    pub right: f32,
    /// Its lower side.
    pub bottom: f32,
}

/// What was read on a page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecognizedPage {
    /// Its lines, in no order.
    pub lines: Vec<RecognizedLine>,
    /// The size of the page as it is read: that of the picture, or turned by 90 degrees.
    pub width: f32,
    /// See `width`.
    pub height: f32,
    /// How often the picture was turned by 90 degrees with the clock before it was read.
    pub quarter_turns: u8,
    /// How far its lines rise or fall after that, in radians.
    pub slope: f32,
}

impl RecognizedPage {
    /// Where a part of a line is on the picture as it was given: the left, top, right and bottom of the upright rectangle
    /// around it, in pixels. The part lies between two shares of the width of the line, from 0 to 1.
    pub fn place_on_picture(&self, line: &RecognizedLine, part: (f32, f32)) -> [f32; 4] {
        let (sin, cos) = self.slope.sin_cos();
        let at = |share: f32| line.left + share * (line.right - line.left);
        let corners = [part.0, part.1].into_iter().flat_map(|share| [(at(share), line.top), (at(share), line.bottom)]);
        let mut found = [f32::MAX, f32::MAX, f32::MIN, f32::MIN];
        for (x, y) in corners {
            let (x, y) = (x * cos - y * sin, x * sin + y * cos);
            let (x, y) = match self.quarter_turns % 4 {
                0 => (x, y),
                1 => (y, self.width - x),
                2 => (self.width - x, self.height - y),
                _ => (self.height - y, x),
            };
            found = [found[0].min(x), found[1].min(y), found[2].max(x), found[3].max(y)];
        }
        found
    }

    /// How sure the network is of all lines in the mean, by their characters; 0 without lines.
    pub fn confidence(&self) -> f32 {
        mean_confidence(self.lines.iter().map(|line| (line.text.as_str(), line.confidence)))
    }
}

/// The confidence of texts in the mean, by their characters.
fn mean_confidence<'t>(texts: impl Iterator<Item = (&'t str, f32)>) -> f32 {
    let (mut sum, mut characters) = (0.0, 0.0);
    for (text, confidence) in texts {
        let count = text.chars().count() as f32;
        sum += confidence * count;
        characters += count;
    }
    if characters > 0.0 { sum / characters } else { 0.0 }
}

/// Reads the text of pictures, one picture at a time on all its threads.
#[derive(Debug)]
pub struct TextRecognizer {
    engine: Mutex<OcrEngine>,
}

impl TextRecognizer {
    /// Opens the networks, which use so many threads.
    ///
    /// # Errors
    /// If the networks or ONNX Runtime are not here, or are not what they should be.
    pub fn open(directory: &ModelDirectory, threads: usize) -> Result<Self, Error> {
        let files = directory.locate(MODEL, ModelKind::Ocr)?;
        let environment = onnx::library(directory)?;
        Ok(Self { engine: Mutex::new(OcrEngine::open(&environment, &files.folder, threads)?) })
    }

    /// Reads a page.
    ///
    /// # Errors
    /// If a network cannot be run.
    pub fn read(&self, picture: &Picture) -> Result<RecognizedPage, Error> {
        locked(&self.engine).read(picture)
    }
}

/// A line where it is on the picture.
#[derive(Debug, Clone)]
struct PlacedLine {
    text: String,
    confidence: f32,
    rectangle: Rectangle,
}

/// The longest lines of a page, by their places among its boxes, as they were read without turning the page.
struct SampledLines {
    /// Whether they can be read better the other way up.
    is_on_head: bool,
    texts: Vec<(usize, RecognizedText)>,
}

#[derive(Debug)]
struct OcrEngine {
    detector: Detector,
    /// Each reads lines on a thread of its own.
    recognizers: Vec<Recognizer>,
}

impl OcrEngine {
    fn open(environment: &Environment, folder: &Path, threads: usize) -> Result<Self, Error> {
        let threads = threads.max(1);
        let (detection, recognition) = (folder.join(DETECTION), folder.join(RECOGNITION));
        let read = |file| std::fs::read(file).map_err(|error| Error::bad_file(file, error));
        let detector = Detector::new(runtime::open(environment, &detection, &read(&detection)?, threads)?);
        let mut network = read(&recognition)?;
        if onnx::adds_bytes_exactly() {
            network = quantization::quantized(&network)?;
        }
        let recognizer = |_| Recognizer::new(runtime::open(environment, &recognition, &network, 1)?);
        let recognizers = (0..threads).map(recognizer).collect::<Result<_, _>>()?;
        Ok(Self { detector, recognizers })
    }

    fn read(&mut self, picture: &Picture) -> Result<RecognizedPage, Error> {
        let mut boxes = self.detector.detect(picture)?;
        let mut turns = 0;
        let mut turned = None;
        if direction::lies_on_side(&boxes) {
            turns = 1;
            boxes = self.detector.detect(turned.insert(picture.quarter_turned(turns)))?;
        }
        let mut read = self.read_sample(turned.as_ref().unwrap_or(picture), &boxes)?;
        if read.is_on_head {
            turns += 2;
            boxes = self.detector.detect(turned.insert(picture.quarter_turned(turns)))?;
            read.texts.clear();
        }
        let page = turned.as_ref().unwrap_or(picture);
        let mut lines = self.read_boxes(page, &boxes, read.texts)?;
        lines.retain(|line| line.confidence >= LEAST_CONFIDENCE && !line.text.trim().is_empty());
        let (width, height) = (page.width as f32, page.height as f32);
        let slope = slope(&lines);
        Ok(RecognizedPage { lines: straight(lines, slope), width, height, quarter_turns: turns, slope })
    }

    /// Reads the longest lines, and looks whether they can be read better the other way up.
    fn read_sample(&mut self, picture: &Picture, boxes: &[TextBox]) -> Result<SampledLines, Error> {
        let sample = direction::sample(boxes);
        let mut read = |turns: u8| {
            let turned = |index: &usize| boxes[*index].rectangle.quarter_turned(turns);
            let texts = self.recognize(picture, &sample.iter().map(turned).collect::<Vec<_>>())?;
            let confidence = mean_confidence(texts.iter().map(|text| (text.text.as_str(), text.confidence)));
            Ok::<_, Error>((texts, confidence))
        };
        let (texts, upright) = read(0)?;
        let is_on_head = upright < SURE && read(2)?.1 > upright;
        Ok(SampledLines { is_on_head, texts: sample.into_iter().zip(texts).collect() })
    }

    /// Reads each line in the likeliest direction, and in the others if its text is unsure. `known` are texts of lines that
    /// were read upright already.
    fn read_boxes(
        &mut self,
        picture: &Picture,
        boxes: &[TextBox],
        known: Vec<(usize, RecognizedText)>,
    ) -> Result<Vec<PlacedLine>, Error> {
        let is_level = |found: &TextBox| direction::directions(&found.rectangle).first() == Some(&0);
        let mut best = vec![RecognizedText::default(); boxes.len()];
        // Lines on their side were read across, which is none of their directions.
        for (index, text) in known.into_iter().filter(|(index, _)| is_level(&boxes[*index])) {
            best[index] = text;
        }
        for attempt in 0.. {
            let direction = |index: usize| direction::directions(&boxes[index].rectangle).get(attempt).copied();
            let (unsure, rectangles): (Vec<usize>, Vec<Rectangle>) = (0..boxes.len())
                .filter(|index| best[*index].confidence < SURE)
                .filter_map(|index| Some((index, boxes[index].rectangle.quarter_turned(direction(index)?))))
                .unzip();
            if unsure.is_empty() {
                break;
            }
            for (index, text) in unsure.into_iter().zip(self.recognize(picture, &rectangles)?) {
                if text.confidence > best[index].confidence {
                    best[index] = text;
                }
            }
        }
        let line = |(RecognizedText { text, confidence }, found): (RecognizedText, &TextBox)| PlacedLine {
            text: text.trim().to_owned(),
            confidence,
            rectangle: found.rectangle,
        };
        Ok(best.into_iter().zip(boxes).map(line).collect())
    }

    /// The texts of all rectangles in their order. The widest are begun first, so that no thread is left alone with one
    /// at the end.
    fn recognize(&mut self, picture: &Picture, rectangles: &[Rectangle]) -> Result<Vec<RecognizedText>, Error> {
        let groups = groups(rectangles);
        let next = AtomicUsize::new(0);
        let work = |recognizer: &mut Recognizer| {
            let mut texts = Vec::new();
            while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                let rectangles: Vec<Rectangle> = group.iter().map(|index| rectangles[*index]).collect();
                texts.extend(group.iter().copied().zip(recognizer.recognize(picture, &rectangles)?));
            }
            Ok::<_, Error>(texts)
        };
        let results: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                self.recognizers.iter_mut().map(|recognizer| scope.spawn(|| work(recognizer))).collect();
            let ended = |_| Err(runtime::failed("a thread that reads lines ended"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(ended)).collect()
        });
        let mut texts = vec![RecognizedText::default(); rectangles.len()];
        for result in results {
            result?.into_iter().for_each(|(index, text)| texts[index] = text);
        }
        Ok(texts)
    }
}

/// How far most lines rise or fall, in radians.
fn slope(lines: &[PlacedLine]) -> f32 {
    let mut angles: Vec<(f32, f32)> = lines
        .iter()
        .map(|line| &line.rectangle)
        .filter(|rectangle| rectangle.width > 4.0 * rectangle.height)
        .map(|rectangle| (rectangle.along.y.atan2(rectangle.along.x), rectangle.width))
        .collect();
    weighted_median(&mut angles).unwrap_or(0.0)
}

/// The lines on a page that is turned so that most of them are level.
fn straight(lines: Vec<PlacedLine>, slope: f32) -> Vec<RecognizedLine> {
    let (sin, cos) = slope.sin_cos();
    let place = |line: PlacedLine| {
        let Rectangle { center, width, height, .. } = line.rectangle;
        let middle = Point::new(center.x * cos + center.y * sin, center.y * cos - center.x * sin);
        RecognizedLine {
            text: line.text,
            confidence: line.confidence,
            left: middle.x - width / 2.0,
            right: middle.x + width / 2.0,
            top: middle.y - height / 2.0,
            bottom: middle.y + height / 2.0,
        }
    };
    lines.into_iter().map(place).collect()
}

/// The value in the middle of the weights.
fn weighted_median(values: &mut [(f32, f32)]) -> Option<f32> {
    values.sort_by(|one, other| one.0.total_cmp(&other.0));
    let half = values.iter().map(|(_, weight)| weight).sum::<f32>() / 2.0;
    let mut sum = 0.0;
    values.iter().find_map(|(value, weight)| {
        sum += weight;
        (sum >= half).then_some(*value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_page_that_lies_askew_are_put_straight() {
        let (sin, cos) = 2_f32.to_radians().sin_cos();
        let line = |x: f32, y: f32, text: &str| PlacedLine {
            text: text.to_owned(),
            confidence: 1.0,
            rectangle: Rectangle {
                center: Point::new(x * cos - y * sin, x * sin + y * cos),
                along: Point::new(cos, sin),
                width: 200.0,
                height: 20.0,
            },
        };
        let lines = vec![line(200.0, 100.0, "left"), line(900.0, 100.0, "right")];
        let slope = slope(&lines);
        let found = straight(lines, slope);
        assert!((found[0].top - found[1].top).abs() < 0.1, "{found:?}");
        assert!((found[1].left - 800.0).abs() < 0.1 && (found[0].bottom - 110.0).abs() < 0.1, "{found:?}");
        assert!(straight(Vec::new(), 0.0).is_empty());
    }

    #[test]
    fn long_texts_weigh_more() {
        let mean = mean_confidence([("abcd", 1.0), ("a", 0.5)].into_iter());
        assert!((mean - 0.9).abs() < 1e-6);
        assert!(mean_confidence(std::iter::empty()) < 0.1);
    }

    #[test]
    fn without_the_networks_the_error_names_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = ModelDirectory::new(folder.path().to_owned(), Vec::new());
        let error = TextRecognizer::open(&directory, 1).expect_err("not here");
        assert!(matches!(&error, Error::NotHere { model, .. } if model == MODEL), "{error}");
    }
}
