//! Pictures as plain pixels, from PNG, JPEG, TIFF and WebP files.

use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{DynamicImage, ExtendedColorType, ImageDecoder, ImageEncoder, ImageReader, Limits};
use std::io::Cursor;

/// Larger pictures are refused: A4 at 600 dpi has 35 million pixels, A0 at 200 dpi has 62 million.
const MOST_PIXELS: u64 = 100_000_000;
/// Bytes that a decoder may allocate: that many pixels in colour, and its working memory.
const MOST_BYTES: u64 = 400 << 20;

/// Rows of pixels, one byte for each channel: grey, or red, green and blue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// 1 or 3.
    pub channels: usize,
    /// `width × height × channels` bytes.
    pub pixels: Vec<u8>,
}

/// Why a file is no picture that can be read.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// The file is damaged, or in another format.
    #[error("the picture cannot be read: {0}")]
    Broken(String),
    /// The picture has more pixels or needs more memory than is allowed.
    #[error("the picture is too large: {0}")]
    TooLarge(String),
}

impl From<image::ImageError> for PictureError {
    fn from(error: image::ImageError) -> Self {
        match error {
            image::ImageError::Limits(error) => Self::TooLarge(error.to_string()),
            other => Self::Broken(other.to_string()),
        }
    }
}

impl Picture {
    /// Whether a file is a picture in one of the formats that are read, by its first bytes.
    pub fn is_picture(bytes: &[u8]) -> bool {
        use image::ImageFormat::{Jpeg, Png, Tiff, WebP};
        matches!(image::guess_format(bytes), Ok(Png | Jpeg | Tiff | WebP))
    }

    /// Reads a file. Transparent parts become white, 16 bits become 8, and the orientation that a camera noted is
    /// applied. Of a file with several pages, it is the first: see [`PictureFile`](super::PictureFile).
    ///
    /// # Errors
    /// The file is damaged or too large.
    pub fn decode(bytes: &[u8]) -> Result<Self, PictureError> {
        let mut limits = Limits::default();
        limits.max_alloc = Some(MOST_BYTES);
        let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(image::ImageError::from)?;
        reader.limits(limits.clone());
        let mut decoder = reader.into_decoder()?;
        let (width, height) = decoder.dimensions();
        if u64::from(width) * u64::from(height) > MOST_PIXELS {
            return Err(PictureError::TooLarge(format!(
                "{width} × {height} pixels, and at most {MOST_PIXELS} are read"
            )));
        }
        if width == 0 || height == 0 {
            return Err(PictureError::Broken("it has no pixels".to_owned()));
        }
        limits.reserve(decoder.total_bytes())?;
        let orientation = decoder.orientation().unwrap_or(image::metadata::Orientation::NoTransforms);
        let mut image = DynamicImage::from_decoder(decoder)?;
        image.apply_orientation(orientation);
        Ok(Self::from_image(image))
    }

    /// The picture as a PNG file.
    ///
    /// # Errors
    /// If it has no pixels, or not as many as its size says.
    pub fn to_png(&self) -> Result<Vec<u8>, PictureError> {
        let kind = if self.channels == 1 { ExtendedColorType::L8 } else { ExtendedColorType::Rgb8 };
        let size =
            |pixels: usize| u32::try_from(pixels).map_err(|_| PictureError::TooLarge(format!("{pixels} pixels")));
        let (width, height, mut file) = (size(self.width)?, size(self.height)?, Vec::new());
        let encoder = PngEncoder::new_with_quality(&mut file, CompressionType::Default, FilterType::Adaptive);
        if self.pixels.len() != self.width * self.height * self.channels {
            return Err(PictureError::Broken("it has not as many pixels as it says".to_owned()));
        }
        encoder.write_image(&self.pixels, width, height, kind)?;
        Ok(file)
    }

    /// The picture in colour, and at most so many pixels wide and high.
    pub fn in_colour(self, most: usize) -> Self {
        let longest = self.width.max(self.height).max(1);
        let share = |pixels: usize| (pixels * most / longest).max(1);
        let fitting = if longest > most { self.resized(share(self.width), share(self.height)) } else { self };
        if fitting.channels == 3 {
            return fitting;
        }
        let pixels = fitting.pixels.iter().flat_map(|grey| [*grey; 3]).collect();
        Self { channels: 3, pixels, ..fitting }
    }

    fn from_image(image: DynamicImage) -> Self {
        let (width, height) = (image.width() as usize, image.height() as usize);
        let (channels, pixels) = match image {
            DynamicImage::ImageLuma8(grey) => (1, grey.into_raw()),
            DynamicImage::ImageLuma16(grey) => (1, grey.as_raw().iter().map(|value| (value >> 8) as u8).collect()),
            DynamicImage::ImageRgb8(colour) => (3, colour.into_raw()),
            image if image.color().has_alpha() && !image.color().has_color() => {
                let pixels = image.into_luma_alpha8().into_raw();
                (1, pixels.as_chunks().0.iter().map(|[grey, alpha]| on_white(*grey, *alpha)).collect())
            }
            image if image.color().has_alpha() => {
                let pixels = image.into_rgba8().into_raw();
                let colours = |[red, green, blue, alpha]: &[u8; 4]| [*red, *green, *blue].map(|c| on_white(c, *alpha));
                (3, pixels.as_chunks().0.iter().flat_map(colours).collect())
            }
            other => (3, other.into_rgb8().into_raw()),
        };
        Self { width, height, channels, pixels }
    }

    /// Adds the colour at a point to `sums`: a mean of the four pixels around it, by their distance. The middle of the
    /// first pixel is at (0.5, 0.5).
    pub(super) fn add_at(&self, (x, y): (f32, f32), sums: &mut [f32; 3]) {
        let x = (x - 0.5).clamp(0.0, (self.width - 1) as f32);
        let y = (y - 0.5).clamp(0.0, (self.height - 1) as f32);
        let (left, top) = (x as usize, y as usize);
        let (right, bottom) = ((left + 1).min(self.width - 1), (top + 1).min(self.height - 1));
        let (share_x, share_y) = (x - left as f32, y - top as f32);
        for (channel, sum) in sums.iter_mut().enumerate().take(self.channels) {
            let at = |x: usize, y: usize| f32::from(self.pixels[(y * self.width + x) * self.channels + channel]);
            let upper = at(left, top) + (at(right, top) - at(left, top)) * share_x;
            let lower = at(left, bottom) + (at(right, bottom) - at(left, bottom)) * share_x;
            *sum += upper + (lower - upper) * share_y;
        }
    }

    /// The picture in another size. Each pixel is the mean of those that it covers, weighted by their distance.
    pub(super) fn resized(&self, width: usize, height: usize) -> Self {
        let row = self.width * self.channels;
        let (rows, columns) = (weights(self.height, height), weights(self.width, width));
        let mut pixels = Vec::with_capacity(width * height * self.channels);
        let mut sums = vec![0.0; row];
        for (top, shares) in &rows {
            sums.fill(0.0);
            for (i, share) in shares.iter().enumerate() {
                let pixels = &self.pixels[(top + i) * row..(top + i + 1) * row];
                sums.iter_mut().zip(pixels).for_each(|(sum, pixel)| *sum += share * f32::from(*pixel));
            }
            for (left, shares) in &columns {
                for channel in 0..self.channels {
                    let values = sums[left * self.channels + channel..].iter().step_by(self.channels);
                    let value: f32 = shares.iter().zip(values).map(|(share, value)| share * value).sum();
                    pixels.push((value + 0.5) as u8);
                }
            }
        }
        Self { width, height, channels: self.channels, pixels }
    }

    /// Turned by so many times 90 degrees clockwise.
    pub(super) fn quarter_turned(&self, turns: u8) -> Self {
        let (width, height) = if turns % 2 == 1 { (self.height, self.width) } else { (self.width, self.height) };
        let mut pixels = Vec::with_capacity(self.pixels.len());
        for y in 0..height {
            for x in 0..width {
                let (from_x, from_y) = match turns % 4 {
                    0 => (x, y),
                    1 => (y, self.height - 1 - x),
                    2 => (self.width - 1 - x, self.height - 1 - y),
                    _ => (self.width - 1 - y, x),
                };
                let at = (from_y * self.width + from_x) * self.channels;
                pixels.extend_from_slice(&self.pixels[at..at + self.channels]);
            }
        }
        Self { width, height, channels: self.channels, pixels }
    }
}

fn on_white(value: u8, alpha: u8) -> u8 {
    let (value, alpha) = (u32::from(value), u32::from(alpha));
    ((value * alpha + 255 * (255 - alpha) + 127) / 255) as u8
}

/// For each of `to` places, which of the `from` places it covers: the first of them, and the share of each.
fn weights(from: usize, to: usize) -> Vec<(usize, Vec<f32>)> {
    let scale = from as f32 / to as f32;
    let reach = scale.max(1.0);
    let of_place = |place: usize| {
        let middle = (place as f32 + 0.5) * scale;
        let first = ((middle - reach).floor().max(0.0) as usize).min(from - 1);
        let last = ((middle + reach).ceil() as usize).clamp(first + 1, from);
        let share = |i: usize| (1.0 - ((i as f32 + 0.5 - middle) / reach).abs()).max(0.0);
        let sum: f32 = (first..last).map(share).sum();
        (first, (first..last).map(|i| share(i) / sum).collect())
    };
    (0..to).map(of_place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_change_and_the_mean_stays() {
        let pixels: Vec<u8> = (0..60).map(|i| if i % 10 < 5 { 0 } else { 200 }).collect();
        let picture = Picture { width: 10, height: 6, channels: 1, pixels };
        for (width, height) in [(10, 6), (5, 3), (3, 2), (1, 1), (23, 17)] {
            let resized = picture.resized(width, height);
            assert_eq!(resized.pixels.len(), width * height);
            let mean = resized.pixels.iter().map(|pixel| f32::from(*pixel)).sum::<f32>() / (width * height) as f32;
            assert!((mean - 100.0).abs() < 3.0, "{width} × {height}: {mean}");
        }
        assert_eq!(picture.resized(10, 6), picture);
    }

    #[test]
    fn four_quarter_turns_are_none() {
        let picture = Picture { width: 3, height: 2, channels: 3, pixels: (0..18).collect() };
        let once = picture.quarter_turned(1);
        assert_eq!((once.width, once.height), (2, 3));
        // The first pixel of the last row comes first.
        assert_eq!(once.pixels[..3], [9, 10, 11]);
        assert_eq!(once.quarter_turned(1), picture.quarter_turned(2));
        assert_eq!(once.quarter_turned(3), picture);
    }

    #[test]
    fn transparent_parts_are_white() {
        assert_eq!([on_white(0, 0), on_white(0, 255), on_white(100, 255), on_white(0, 128)], [255, 0, 100, 127]);
    }

    #[test]
    fn what_is_no_picture_is_an_error() {
        assert!(matches!(Picture::decode(b"no picture"), Err(PictureError::Broken(_))));
        assert!(matches!(Picture::decode(b""), Err(PictureError::Broken(_))));
    }
}
