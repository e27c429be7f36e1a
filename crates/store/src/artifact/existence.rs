//! Looks up many objects at once.

use super::{ArtifactStore, object_path};
use crate::Error;
use futures::{StreamExt, TryStreamExt, stream};
use std::{
    collections::{BTreeSet, HashSet},
    io,
    path::{Path, PathBuf},
};

/// From this many names on, an object store is asked for a list, of which each request brings a thousand names.
const MANY_NAMES: usize = 2000;
/// Requests at once for fewer names.
const AT_ONCE: usize = 64;
/// Threads that look at files, each at no fewer than this number. A folder may be on another machine.
const THREADS: usize = 16;
const FILES_OF_A_THREAD: usize = 32;

impl ArtifactStore {
    /// For each of these names, whether there is an object: what [`ArtifactStore::exists`] says, in less time.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn which_exist(&self, names: &[String]) -> Result<Vec<bool>, Error> {
        for name in names {
            object_path(name)?;
        }
        let files = names.iter().map(|name| self.local_path(name)).collect::<Option<Vec<PathBuf>>>();
        let found = match files {
            Some(files) => look_at(files).await?,
            None if names.len() >= MANY_NAMES => {
                let folders: BTreeSet<&str> = names.iter().filter_map(|name| Some(name.split_once('/')?.0)).collect();
                let mut listed = HashSet::new();
                for folder in folders {
                    listed.extend(self.list(folder).await?);
                }
                let looks = names.iter().map(async |name| match name.contains('/') {
                    true => Ok(listed.contains(name)),
                    false => self.exists(name).await,
                });
                let looks: Vec<_> = looks.collect();
                return stream::iter(looks).buffered(AT_ONCE).try_collect().await;
            }
            None => {
                let looks: Vec<_> = names.iter().map(|name| self.exists(name)).collect();
                return stream::iter(looks).buffered(AT_ONCE).try_collect().await;
            }
        };
        let Some(base) = self.base.as_ref().filter(|_| found.contains(&false)) else { return Ok(found) };
        let others: Vec<String> =
            names.iter().zip(&found).filter(|(_, found)| !**found).map(|(it, _)| it.clone()).collect();
        let mut of_base = Box::pin(base.which_exist(&others)).await?.into_iter();
        Ok(found.into_iter().map(|found| found || of_base.next() == Some(true)).collect())
    }

    /// The first of these names that has no object; none if all have one.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn first_missing(
        &self,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Option<String>, Error> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let found = self.which_exist(&names).await?;
        Ok(names.into_iter().zip(found).find(|(_, found)| !found).map(|(name, _)| name))
    }
}

/// For each path, whether there is a file.
async fn look_at(files: Vec<PathBuf>) -> Result<Vec<bool>, Error> {
    let look = |file: &PathBuf| match file.metadata() {
        Ok(found) => Ok(found.is_file()),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
        Err(source) => Err(Error::file("read", file, source)),
    };
    let of_a_thread = files.len().div_ceil(THREADS).max(FILES_OF_A_THREAD);
    let looks: Vec<_> = (files.chunks(of_a_thread))
        .map(<[PathBuf]>::to_vec)
        .map(|files| tokio::task::spawn_blocking(move || files.iter().map(look).collect::<Result<Vec<bool>, Error>>()))
        .collect();
    let mut found = Vec::with_capacity(files.len());
    for looked in looks {
        let looked =
            looked.await.map_err(|error| Error::file("look for", Path::new("objects"), io::Error::other(error)));
        found.extend(looked??);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::NoLayout;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|place| format!("{}/{place}", if place % 2 == 0 { "even" } else { "odd" })).collect()
    }

    fn open(address: &str) -> ArtifactStore {
        ArtifactStore::open(address, &[], &NoLayout).unwrap()
    }

    #[tokio::test]
    async fn many_names_are_looked_up_together_wherever_the_store_is() {
        let folder = tempfile::tempdir().unwrap();
        let places = [folder.path().to_str().unwrap(), "memory:///prefix"];
        for (place, count) in [(places[0], 3000), (places[0], 5), (places[1], 3000), (places[1], 5)] {
            let store = open(place);
            for name in ["odd/3", "even/4"] {
                store.put(name, "x").await.unwrap();
            }
            let found = store.which_exist(&names(count)).await.unwrap();
            let there: Vec<usize> = (0..count).filter(|place| found[*place]).collect();
            assert_eq!(there, [3, 4], "{place}, {count} names");
            assert_eq!(
                store.first_missing(["odd/3", "even", "odd/5"]).await.unwrap().as_deref(),
                Some("even"),
                "a folder"
            );
            assert_eq!(store.first_missing(["odd/3", "even/4"]).await.unwrap(), None);
            assert_eq!(store.which_exist(&[]).await.unwrap(), [false; 0]);
            // As `exists` says, whatever the name is like.
            store.put("top", "x").await.unwrap();
            let mut names = names(count);
            names.extend(["top", "odd", "none"].map(str::to_owned));
            let mut expected = Vec::new();
            for name in &names {
                expected.push(store.exists(name).await.unwrap());
            }
            assert_eq!(store.which_exist(&names).await.unwrap(), expected);
            names.push("../x".to_owned());
            assert!(store.exists("../x").await.is_err() && store.which_exist(&names).await.is_err());
        }
    }

    #[tokio::test]
    async fn what_a_store_lacks_may_be_in_the_store_that_it_was_opened_over() {
        let (below, above) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let base = open(below.path().to_str().unwrap());
        base.put("even/0", "x").await.unwrap();
        let store = base.with_scratch(above.path()).unwrap();
        store.put("odd/1", "x").await.unwrap();
        assert_eq!(store.which_exist(&names(3)).await.unwrap(), [true, true, false]);
        assert_eq!(base.which_exist(&names(3)).await.unwrap(), [true, false, false]);
    }
}
