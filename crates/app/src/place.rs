//! Where an experiment runs: one rule for the command line, for Python and
//! for jobs of a cluster.

use lab::{Experiment, RayEngineSpec};

/// Why an engine and an address cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineChoiceError {
    /// The engine is this machine, and the address that of a cluster.
    #[error("the engine `local` is this machine, and the address {0} is that of a cluster: leave one of them out")]
    Contradiction(String),
    /// An empty address.
    #[error("the address of a cluster is empty: use `auto`, HOST:PORT or http://HEAD:8265")]
    EmptyAddress,
    /// An engine that does not exist.
    #[error("there is no engine `{0}`: there are `local` and `ray`")]
    NoEngine(String),
}

/// Where an experiment runs.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecutionPlace {
    /// On this machine.
    Here,
    /// On the Ray cluster that this process joins.
    Cluster,
    /// As a job that is submitted to a cluster's Jobs API.
    Job(RayEngineSpec),
}

/// Overrides the engine and the address of an experiment, and returns where the
/// experiment runs. Without overrides, its own engine and address apply. An
/// address implies `ray`.
///
/// # Errors
/// If there is no such engine, or the choice contradicts itself.
pub fn choose_place(
    experiment: &mut Experiment,
    engine: Option<&str>,
    address: Option<&str>,
) -> Result<ExecutionPlace, EngineChoiceError> {
    match (engine, address) {
        (Some("local"), Some(address)) => {
            return Err(EngineChoiceError::Contradiction(address.to_owned()));
        }
        (Some("local"), None) => experiment.engine.ray = None,
        (None, None) => {}
        (None | Some("ray"), address) => {
            let ray = experiment.engine.ray.get_or_insert_default();
            match address.map(str::trim) {
                Some("") => return Err(EngineChoiceError::EmptyAddress),
                Some(address) => address.clone_into(&mut ray.address),
                None => {}
            }
        }
        (Some(other), _) => return Err(EngineChoiceError::NoEngine(other.to_owned())),
    }
    Ok(match &experiment.engine.ray {
        None => ExecutionPlace::Here,
        Some(ray) if ray.is_jobs_address() => ExecutionPlace::Job(ray.clone()),
        Some(_) => ExecutionPlace::Cluster,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(file: &str, engine: Option<&str>, address: Option<&str>) -> Result<ExecutionPlace, EngineChoiceError> {
        let text = format!(
            "name = \"x\"\n[corpus]\nsource = \"d\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n{file}"
        );
        choose_place(&mut Experiment::parse(&text, ".").unwrap(), engine, address)
    }

    #[test]
    fn a_choice_goes_before_the_file_and_an_address_implies_ray() {
        const RAY: &str = "[engine]\nray = { address = \"http://head:8265\" }";
        let job = |address: &str| {
            Ok(ExecutionPlace::Job(RayEngineSpec { address: address.to_owned(), ..Default::default() }))
        };
        assert_eq!(choose("", None, None), Ok(ExecutionPlace::Here));
        assert_eq!(choose("", Some("ray"), None), Ok(ExecutionPlace::Cluster));
        assert_eq!(choose("", None, Some("head:6379")), Ok(ExecutionPlace::Cluster));
        assert_eq!(choose("", None, Some("https://head")), job("https://head"));
        assert_eq!(choose(RAY, None, None), job("http://head:8265"));
        assert_eq!(choose(RAY, Some("ray"), None), job("http://head:8265"), "its address is the file's");
        assert_eq!(choose(RAY, Some("local"), None), Ok(ExecutionPlace::Here));
        assert_eq!(choose(RAY, Some("ray"), Some("auto")), Ok(ExecutionPlace::Cluster));
    }

    #[test]
    fn contradictions_are_refused() {
        let refused = |engine, address| choose("", engine, address).unwrap_err().to_string();
        assert!(refused(Some("local"), Some("auto")).contains("leave one of them out"));
        assert!(refused(Some("spark"), None).contains("`local` and `ray`"));
        assert!(refused(None, Some(" ")).contains("empty"));
    }
}
