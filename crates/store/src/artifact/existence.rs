//! Which of many objects are there.

use super::ArtifactStore;
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

impl ArtifactStore {
    /// For each of these names, whether there is an object: what [`ArtifactStore::exists`] says, in less time.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn which_exist(&self, names: &[String]) -> Result<Vec<bool>, Error> {
        let files = names.iter().map(|name| self.local_path(name)).collect::<Option<Vec<PathBuf>>>();
        let found = match files {
            Some(files) => look_at(files).await?,
            None if names.len() >= MANY_NAMES => {
                let top: BTreeSet<&str> = names.iter().filter_map(|name| name.split('/').next()).collect();
                let mut listed = HashSet::new();
                for folder in top {
                    listed.extend(self.list(folder).await?);
                }
                return Ok(names.iter().map(|name| listed.contains(name)).collect());
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

    /// The first of these names of which there is no object; none if all are there.
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
    let look = |file: PathBuf| match file.metadata() {
        Ok(found) => Ok(found.is_file()),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
        Err(source) => Err(Error::file("read", &file, source)),
    };
    let looked = tokio::task::spawn_blocking(move || files.into_iter().map(look).collect()).await;
    looked.map_err(|error| Error::file("read", Path::new("many objects"), io::Error::other(error)))?
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
        assert!(store.first_missing(["../x"]).await.is_err(), "no name of an object");
    }
}
