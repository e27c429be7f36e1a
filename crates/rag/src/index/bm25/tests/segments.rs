//! Several files are one index; merged files; searches against adding up everything.

use super::*;

fn of(texts: &[String]) -> Bm25Index {
    let analysis = TextAnalysis { language: LanguageChoice::Named(Language::ENGLISH), ..TextAnalysis::default() };
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    Bm25Index::of(&IndexedTexts { texts: &texts, documents: &[0], analysis: &analysis, languages: None })
}

/// Writes a file for each part of the texts.
fn write(folder: &Path, parts: &[&[String]]) -> Vec<PathBuf> {
    let write = |(number, part): (usize, &&[String])| {
        let file = folder.join(format!("{number}.bm25"));
        std::fs::write(&file, of(part).to_bytes()).unwrap();
        file
    };
    parts.iter().enumerate().map(write).collect()
}

/// Cuts at random places; parts may be empty.
fn cut<'a>(texts: &'a [String], n: usize, random: &mut Random) -> Vec<&'a [String]> {
    let mut ends: Vec<usize> = (1..n).map(|_| random.below(texts.len() + 1)).collect();
    ends.sort_unstable();
    let starts: Vec<usize> = [0].into_iter().chain(ends.iter().copied()).collect();
    ends.push(texts.len());
    starts.into_iter().zip(ends).map(|(start, end)| &texts[start..end]).collect()
}

fn merged(files: &[PathBuf], target: &Path) -> Vec<u8> {
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    Bm25Index::merge(&files, target).unwrap();
    std::fs::read(target).unwrap()
}

const SATURATIONS: [(f32, f32); 6] = [(1.5, 0.75), (0.9, 0.4), (0.0, 1.0), (50.0, 1.0), (1.2, 0.0), (-0.5, 2.0)];

#[test]
fn segments_have_the_hits_and_scores_of_one_index() {
    let mut random = Random(7);
    let texts: Vec<String> = (0..9000).map(|i| random.words(1 + (i * 7) % 60, 3000)).collect();
    let whole = of(&texts);
    let queries: Vec<String> = (0..12).map(|i| random.words(1 + i, 3000)).collect();
    let filters: [fn(u32) -> bool; 3] = [|_| true, |entry| entry % 5 == 3, |entry| entry > 8990];
    for n in [1, 2, 5, 11] {
        let folder = tempfile::tempdir().unwrap();
        let files = write(folder.path(), &cut(&texts, n, &mut random));
        let index = Bm25Index::open_files(&files).unwrap();
        index.verify().unwrap();
        assert_eq!(index.entries(), 9000);
        assert!(index == whole && merged(&files, &folder.path().join("all")) == whole.to_bytes(), "{n} files");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), n + 1, "no partial file is left");
        for query in &queries {
            for ((k1, b), passes) in SATURATIONS.into_iter().zip(filters.into_iter().cycle()) {
                let saturation = Saturation { k1, b };
                let all = bits(&all_added_up(&whole, query, saturation, passes));
                for k in [0, 1, 10, 100, 8999, usize::MAX] {
                    let found = bits(&index.search_where(query, k, saturation, passes));
                    assert!(found == all[..k.min(all.len())], "{n} files, {query}, {k1}, {b}, {k}");
                }
            }
            let entries: Vec<u32> = (0..400).map(|_| random.below(9100) as u32).collect();
            let (found, expected) = (index.scores(query, &entries), whole.scores(query, &entries));
            assert!(found.iter().map(|score| score.to_bits()).eq(expected.iter().map(|score| score.to_bits())));
        }
    }
}

#[test]
fn searches_of_random_corpora_are_sums_of_everything() {
    for seed in 0..300 {
        let mut random = Random(seed);
        let (n, longest, vocabulary) = (1 + random.below(900), 1 + random.below(50), 1 + random.below(400));
        let texts: Vec<String> = (0..n)
            .map(|_| {
                let words = random.below(longest);
                random.words(words, vocabulary)
            })
            .collect();
        let index = of(&texts);
        index.verify().unwrap();
        for _ in 0..4 {
            let words = random.below(9);
            let query = random.words(words, vocabulary);
            let (k1, b) = SATURATIONS[random.below(6)];
            let (saturation, divisor) = (Saturation { k1, b }, 1 + random.below(3) as u32);
            let passes = |entry: u32| entry.is_multiple_of(divisor);
            let all = bits(&all_added_up(&index, &query, saturation, passes));
            let k = 1 + random.below(20);
            let found = bits(&index.search_where(&query, k, saturation, passes));
            assert!(found == all[..k.min(all.len())], "{seed}, {query}, {k1}, {b}, {k}");
        }
    }
}

#[test]
fn a_term_of_the_last_file_only_is_found_there() {
    let folder = tempfile::tempdir().unwrap();
    let texts = TEXTS.map(str::to_owned);
    let files = write(folder.path(), &[&texts[..2], &[], &texts[2..3], &texts[3..]]);
    let index = Bm25Index::open_files(&files).unwrap();
    assert_eq!(index.search("fox", 5), of(&texts).search("fox", 5));
    assert_eq!(index.search("fox", 5)[0].0, 3);
    assert_eq!(index.scores("fox", &[0, 3, 9]), of(&texts).scores("fox", &[0, 3, 9]));
}

#[test]
fn empty_files_are_an_empty_index() {
    let folder = tempfile::tempdir().unwrap();
    let files = write(folder.path(), &[&[], &[]]);
    let index = Bm25Index::open_files(&files).unwrap();
    assert_eq!((index.entries(), index.search("cat", 3)), (0, vec![]));
    assert!(merged(&files, &folder.path().join("all")) == of(&[]).to_bytes());
    assert!(Bm25Index::open_files(&[]).is_err());
}

#[test]
fn languages_of_all_files_are_counted_together() {
    let japanese = JAPANESE.repeat(4);
    let parts: [&[&str]; 3] = [&[GERMAN[0]], &[ENGLISH], &[&japanese, GERMAN[1]]];
    let analysis = TextAnalysis::default();
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = (0..3).map(|part| folder.path().join(part.to_string())).collect();
    for (file, texts) in files.iter().zip(parts) {
        let documents: Vec<usize> = (0..texts.len()).collect();
        let index = Bm25Index::of(&IndexedTexts { texts, documents: &documents, analysis: &analysis, languages: None });
        std::fs::write(file, index.to_bytes()).unwrap();
    }
    let whole = Bm25Index::of(&IndexedTexts {
        texts: &parts.concat(),
        documents: &[0, 1, 2, 3],
        analysis: &analysis,
        languages: None,
    });
    let index = Bm25Index::open_files(&files).unwrap();
    assert!(merged(&files, &folder.path().join("all")) == whole.to_bytes());
    assert_eq!(index.settings, whole.settings);
    for query in ["Prozess Package", "upgrading packages", "依存関係", "Abhaengigkeit"] {
        assert_eq!(index.search(query, 4), whole.search(query, 4), "{query}");
    }
}

#[test]
fn files_that_were_cut_otherwise_are_not_one_index() {
    let folder = tempfile::tempdir().unwrap();
    let files = [folder.path().join("english"), folder.path().join("auto")];
    std::fs::write(&files[0], of(&[]).to_bytes()).unwrap();
    std::fs::write(&files[1], Bm25Index::build(&TEXTS).to_bytes()).unwrap();
    assert!(Bm25Index::open_files(&files).unwrap_err().to_string().contains("different settings"));
    let target = folder.path().join("all");
    assert!(Bm25Index::merge(&[&files[0], &files[1]], &target).is_err() && !target.exists());
}
