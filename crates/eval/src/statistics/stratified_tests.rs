//! How often the intervals of a stratified sample hold the true totals, and what a sample is made of.

use super::*;

/// A made population of files in two formats: what each file holds.
struct Population {
    groups: Vec<Vec<usize>>,
    sizes: Vec<u64>,
    /// Bytes of text; 0 for a rejected file.
    text: Vec<f64>,
    is_document: Vec<bool>,
}

/// How a population is made.
#[derive(Debug, Clone, Copy)]
struct Shape {
    /// The standard deviation of the logarithm of sizes.
    spread: f64,
    /// The share of files that are rejected.
    rejected: f64,
    /// Whether the share of text grows with the size of a file.
    depends_on_size: bool,
}

impl Population {
    /// Files with log-normal sizes. 30 % are of a format of large files that hold a varying 8 % of text, the others are
    /// small and nearly all text.
    fn new(files: usize, shape: Shape, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let groups = vec![Vec::new(), Vec::new()];
        let mut made = Self { groups, sizes: Vec::new(), text: Vec::new(), is_document: Vec::new() };
        for file in 0..files {
            let group = usize::from(random.open_unit() < 0.3);
            let size = ((shape.spread * random.normal()).exp() * [5_000.0, 200_000.0][group]).ceil();
            let share = match group {
                1 => 0.08 * (0.8 * random.normal()).exp(),
                _ if shape.depends_on_size => size / (size + 20_000.0) * (0.2 * random.normal()).exp(),
                _ => 0.9 * (0.2 * random.normal()).exp().min(1.1),
            };
            let is_document = random.open_unit() >= shape.rejected;
            made.groups[group].push(file);
            made.sizes.push(size as u64);
            made.text.push(if is_document { size * share } else { 0.0 });
            made.is_document.push(is_document);
        }
        made
    }

    /// The estimates of a sample: bytes of text, and the share of files that are documents.
    fn estimate(&self, places: &[usize], weights: &SampleWeights) -> (f64, f64) {
        let text = places.iter().zip(&weights.sizes).map(|(&place, weight)| self.text[place] * weight).sum();
        let documents = places.iter().zip(&weights.items).filter(|(place, _)| self.is_document[**place]);
        (text, documents.map(|(_, weight)| weight).sum::<f64>() / self.sizes.len() as f64)
    }
}

/// The shares of samples whose intervals hold the true bytes of text, and the true share of documents.
fn coverage(population: &Population, most: usize, samples: u64) -> (f64, f64) {
    let text: f64 = population.text.iter().sum();
    let documents = population.is_document.iter().filter(|it| **it).count() as f64 / population.sizes.len() as f64;
    let (mut held_text, mut held_documents) = (0, 0);
    for seed in 0..samples {
        let sample = StratifiedSample::draw(&population.groups, &population.sizes, most, seed);
        let places = sample.places();
        let measured: Vec<f64> = places.iter().map(|&place| population.text[place]).collect();
        let (estimate, share) = population.estimate(&places, &sample.weights());
        let resample = |i| population.estimate(&places, &sample.resampled_weights(seed, i)).0;
        let resampled: Vec<f64> = (0..RESAMPLES_OF_TOTAL).map(resample).collect();
        let found = sample.interval(estimate, &resampled, sample.freedom(&measured));
        held_text += u32::from((found.low..=found.high).contains(&text));
        let found = sample.share_interval(share);
        held_documents += u32::from((found.low..=found.high).contains(&documents));
    }
    (f64::from(held_text) / samples as f64, f64::from(held_documents) / samples as f64)
}

#[test]
fn about_95_of_100_intervals_hold_the_true_total_of_skewed_files_with_rejected_ones() {
    let shapes = [(1.0, 0.05, false), (1.5, 0.15, false), (2.0, 0.05, false), (1.5, 0.02, true), (1.2, 0.3, false)];
    let (mut sum, mut cases) = (0.0, 0.0);
    for (spread, rejected, depends_on_size) in shapes {
        let shape = Shape { spread, rejected, depends_on_size };
        for (files, most) in [(3_000, 200), (20_000, 200), (20_000, 500)] {
            let (text, documents) = coverage(&Population::new(files, shape, 17), most, 200);
            println!("{shape:?}, {most} of {files} files: text {text:.3}, documents {documents:.3}");
            assert!(text >= 0.9, "{text} of the intervals hold the text: {shape:?}, {most} of {files}");
            assert!(documents >= 0.9, "{documents} hold the documents: {shape:?}, {most} of {files}");
            (sum, cases) = (sum + text, cases + 1.0);
        }
    }
    let mean = sum / cases;
    assert!((0.92..=0.98).contains(&mean), "{mean} of all intervals hold the text");
}

#[test]
fn a_population_within_the_sample_is_drawn_as_a_whole_and_its_intervals_are_points() {
    let population = Population::new(150, Shape { spread: 1.5, rejected: 0.1, depends_on_size: false }, 3);
    for most in [150, 1_000] {
        let sample = StratifiedSample::draw(&population.groups, &population.sizes, most, 1);
        let mut places = sample.places();
        let weights = sample.weights();
        assert!(sample.is_whole() && weights.items.iter().chain(&weights.sizes).all(|weight| *weight == 1.0));
        assert_eq!(sample.resampled_weights(1, 7), weights);
        assert_eq!(sample.interval(5.0, &[5.0, 5.0], 3.0), Interval { low: 5.0, high: 5.0 });
        let share = sample.share_interval(0.9);
        assert!((share.low - 0.9).abs() < 1e-9 && (share.high - 0.9).abs() < 1e-9, "{share:?}");
        places.sort_unstable();
        assert_eq!(places, (0..150).collect::<Vec<_>>());
    }
    assert!(!StratifiedSample::draw(&population.groups, &population.sizes, 149, 1).is_whole());
}

#[test]
fn a_sample_has_so_many_items_each_once_and_a_few_of_each_group() {
    // Groups of 10,000, 300, 7 and 2 items.
    let mut sizes = Vec::new();
    let mut groups = Vec::new();
    for (items, size) in [(10_000, 1_000), (300, 50_000), (7, 10), (2, 0)] {
        groups.push((sizes.len()..sizes.len() + items).collect::<Vec<usize>>());
        sizes.extend(vec![size; items]);
    }
    for (most, seed) in [(20, 1), (200, 1), (200, 2), (1_000, 3)] {
        let sample = StratifiedSample::draw(&groups, &sizes, most, seed);
        let places: BTreeSet<usize> = sample.places().into_iter().collect();
        assert_eq!((places.len(), sample.places().len()), (most, most));
        let of_group = |group: &Vec<usize>| group.iter().filter(|place| places.contains(place)).count();
        let counts: Vec<usize> = groups.iter().map(of_group).collect();
        assert!(counts[0] >= 5 && counts[1] >= 5 && counts[2] >= 5 && counts[3] == 2, "{counts:?}");
        assert_eq!(sample, StratifiedSample::draw(&groups, &sizes, most, seed), "by the seed alone");
    }
    let [one, other] = [1, 2].map(|seed| StratifiedSample::draw(&groups, &sizes, 200, seed).places());
    assert_ne!(one, other);
}

#[test]
fn many_small_groups_are_one_group() {
    let groups: Vec<Vec<usize>> = (0..100).map(|group| (group * 10..group * 10 + 10).collect()).collect();
    let sample = StratifiedSample::draw(&groups, &vec![10; 1_000], 50, 1);
    assert_eq!(sample.places().len(), 50);
    let items: f64 = sample.weights().items.iter().sum();
    assert!((items - 1_000.0).abs() < 1e-6, "{items}");
}

#[test]
fn weights_add_up_to_all_items_and_all_sizes_also_in_resamples_and_without_missing_items() {
    let population = Population::new(5_000, Shape { spread: 1.5, rejected: 0.0, depends_on_size: false }, 5);
    let sample = StratifiedSample::draw(&population.groups, &population.sizes, 200, 4);
    let missing: BTreeSet<usize> = sample.places().into_iter().step_by(3).collect();
    let all: u64 = population.sizes.iter().sum();
    for sample in [sample.clone(), sample.without(&missing)] {
        let places = sample.places();
        for weights in [sample.weights(), sample.resampled_weights(9, 0), sample.resampled_weights(9, 1)] {
            let items: f64 = weights.items.iter().sum();
            let size: f64 =
                places.iter().zip(&weights.sizes).map(|(&place, weight)| population.sizes[place] as f64 * weight).sum();
            assert!((items - 5_000.0).abs() < 1e-6 && (size / all as f64 - 1.0).abs() < 1e-9, "{items} {size}");
            assert!(weights.sizes.iter().all(|weight| *weight >= 0.0));
        }
    }
}

#[test]
fn a_class_whose_items_are_missing_is_joined_with_a_neighbour() {
    let population = Population::new(5_000, Shape { spread: 1.5, rejected: 0.0, depends_on_size: false }, 5);
    let sample = StratifiedSample::draw(&population.groups, &population.sizes, 200, 4);
    let left: BTreeSet<usize> = sample.places().into_iter().step_by(40).collect();
    let missing: BTreeSet<usize> = sample.places().into_iter().filter(|place| !left.contains(place)).collect();
    let sample = sample.without(&missing);
    assert!(sample.strata.iter().all(|stratum| !stratum.is_thin()), "{sample:?}");
    assert_eq!(sample.places().into_iter().collect::<BTreeSet<_>>(), left);
    assert_eq!(sample.strata.iter().map(|stratum| stratum.items).sum::<usize>(), 5_000);
}

#[test]
fn an_item_that_holds_most_of_the_size_is_always_drawn() {
    let mut sizes = vec![1_000; 10_000];
    sizes[4_321] = 50_000_000;
    let groups = [(0..10_000).collect::<Vec<usize>>()];
    for seed in 0..20 {
        let sample = StratifiedSample::draw(&groups, &sizes, 100, seed);
        let at = sample.places().iter().position(|place| *place == 4_321).unwrap();
        assert_eq!(sample.weights().items[at], 1.0);
    }
}

#[test]
fn a_share_that_was_never_or_always_seen_has_an_interval_nevertheless() {
    let groups = [(0..100_000).collect::<Vec<usize>>()];
    let sample = StratifiedSample::draw(&groups, &vec![1_000; 100_000], 200, 1);
    let (none, all) = (sample.share_interval(0.0), sample.share_interval(1.0));
    assert_eq!((none.low, all.high), (0.0, 1.0));
    assert!(none.high > 0.01 && none.high < 0.03 && (1.0 - all.low - none.high).abs() < 1e-9, "{none:?} {all:?}");
}

#[test]
fn nothing_gives_an_empty_sample() {
    let sample = StratifiedSample::draw(&[], &[], 10, 1);
    assert!(sample.places().is_empty() && sample.is_whole() && sample.weights().items.is_empty());
    let empty = StratifiedSample::draw(&[vec![0, 1]], &[0, 0], 10, 1);
    assert_eq!(empty.weights().sizes, [1.0, 1.0], "files without bytes");
}
